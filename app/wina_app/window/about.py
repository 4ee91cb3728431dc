"""The About box: purpose, versions and folders."""

from importlib.metadata import version

import PySide6
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from wina_app.services.workbench import Workbench
from wina_app.style.icons import icon
from wina_app.style.translation import tr
from wina_core.files import paths


def show(parent: QWidget, workbench: Workbench) -> None:
    """Open the box, with text that can be copied."""
    box = QMessageBox(parent)
    box.setWindowTitle(tr("About WINA Workbench"))
    box.setIconPixmap(icon("app").pixmap(48, 48))
    box.setText(f"WINA Workbench {version('wina-workbench')}")
    box.setInformativeText(text(workbench))
    box.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.open()


def text(workbench: Workbench) -> str:
    """Return purpose, versions and folders."""
    environment = workbench.environment
    engine = tr("The engine has not reported yet.")
    if environment is not None:
        versions = ", ".join(f"{name} {number}" for name, number in environment.versions.items())
        engine = tr(
            "Engine on {device} ({hardware}): {versions}.",
            device=environment.device,
            hardware=environment.hardware,
            versions=versions,
        )
    window = tr("Window: PySide6 {version}.", version=PySide6.__version__)
    folders = (
        tr("Data: {folder}", folder=paths.data_folder()),
        tr("Cache: {folder}", folder=paths.cache_folder()),
        tr("Settings: {folder}", folder=paths.config_folder()),
        tr("Log: {folder}", folder=paths.log_folder()),
    )
    purpose = tr("A workbench for training-free activation sparsity in large language models.")
    return "\n\n".join((purpose, f"{window}\n{engine}", "\n".join(folders)))
