"""The About box: what this is, its versions and where it keeps things."""

from importlib.metadata import version

import PySide6
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from wina_app.icons import icon
from wina_app.workbench import Workbench
from wina_core import paths


def show(parent: QWidget, workbench: Workbench) -> None:
    """Open the box; its text can be selected and copied."""
    box = QMessageBox(parent)
    box.setWindowTitle("About WINA Workbench")
    box.setIconPixmap(icon("app").pixmap(48, 48))
    box.setText(f"WINA Workbench {version('wina-workbench')}")
    box.setInformativeText(text(workbench))
    box.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.open()


def text(workbench: Workbench) -> str:
    """Purpose, versions, folders."""
    environment = workbench.environment
    engine = "The engine has not reported yet."
    if environment is not None:
        versions = ", ".join(f"{name} {number}" for name, number in environment.versions.items())
        engine = f"Engine on {environment.device} ({environment.hardware}): {versions}."
    return (
        "A workbench for training-free activation sparsity in large language models.\n\n"
        f"Window: PySide6 {PySide6.__version__}.\n{engine}\n\n"
        f"Data: {paths.data_folder()}\nCache: {paths.cache_folder()}\n"
        f"Settings: {paths.config_folder()}\nLog: {paths.log_folder()}"
    )
