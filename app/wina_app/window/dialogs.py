"""Dialogs of the window: About, and the question on closing it."""

from importlib.metadata import version
from typing import Literal

import PySide6
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from wina_app.services.workbench import Workbench
from wina_app.style.icons import icon
from wina_app.style.number_format import plural
from wina_core.files import paths

ClosingChoice = Literal["cancel", "background", "stay"]
"""Cancel the jobs and quit, quit and let them run, or keep the window."""


def show_about(parent: QWidget, workbench: Workbench) -> None:
    """Open the About box, with text that can be copied."""
    box = QMessageBox(parent)
    box.setWindowTitle("About WINA Workbench")
    box.setIconPixmap(icon("app").pixmap(48, 48))
    box.setText(f"WINA Workbench {version('wina-workbench')}")
    box.setInformativeText(about_text(workbench))
    box.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.open()


def about_text(workbench: Workbench) -> str:
    """Return the purpose, versions and folders of the program."""
    environment = workbench.environment
    engine = "The engine has not reported yet."
    if environment is not None:
        versions = ", ".join(f"{name} {number}" for name, number in environment.versions.items())
        engine = f"Engine on {environment.device} ({environment.hardware}): {versions}."
    window = f"Window: PySide6 {PySide6.__version__}."
    folders = (
        f"Data: {paths.data_folder()}",
        f"Cache: {paths.cache_folder()}",
        f"Settings: {paths.config_folder()}",
        f"Log: {paths.log_folder()}",
    )
    purpose = "A workbench for training-free activation sparsity in large language models."
    return "\n\n".join((purpose, f"{window}\n{engine}", "\n".join(folders)))


def ask_closing(window: QWidget, jobs: int) -> ClosingChoice:
    """Ask what becomes of the running and waiting jobs."""
    text = f"Not finished yet: {plural(jobs, 'jobs', 'job')}."
    box = QMessageBox(QMessageBox.Icon.Question, "Quit WINA Workbench", text, parent=window)
    box.setInformativeText(
        "Stored results are kept either way. In the background the jobs continue in a process of their own, which "
        "begins the present measurements again; the next window on this database shows them, and so does the "
        "command: wina jobs."
    )
    background = box.addButton("Keep running in the background", QMessageBox.ButtonRole.AcceptRole)
    cancel = box.addButton("Cancel jobs and quit", QMessageBox.ButtonRole.DestructiveRole)
    stay = box.addButton("Keep working", QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(stay)
    box.setEscapeButton(stay)
    box.exec()
    box.deleteLater()
    clicked = box.clickedButton()
    return "background" if clicked is background else "cancel" if clicked is cancel else "stay"
