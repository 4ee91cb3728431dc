"""What the File menu asks for, or is dropped onto the window; what is chosen goes to `then`."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QFileDialog, QWidget

from wina_app.translation import tr

Then = Callable[[Path], object]


def model_folder(parent: QWidget, then: Then) -> None:
    """A folder with a model."""
    _open(QFileDialog.getExistingDirectory(parent, tr("Open model folder")), then)


def study(parent: QWidget, then: Then) -> None:
    """A study file."""
    _open(QFileDialog.getOpenFileName(parent, tr("Open study"), "", tr("Study") + " (*.toml)")[0], then)


def database(parent: QWidget, then: Then) -> None:
    """A results database."""
    kinds = tr("Results database") + " (*.sqlite *.db);;" + tr("All files") + " (*)"
    _open(QFileDialog.getOpenFileName(parent, tr("Open results database"), "", kinds)[0], then)


def new_database(parent: QWidget, then: Then) -> None:
    """A file that is not there yet."""
    kinds = tr("Results database") + " (*.sqlite)"
    dialog = QFileDialog(parent, tr("New results database"), "results.sqlite", kinds)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setOption(QFileDialog.Option.DontConfirmOverwrite)  # nothing is ever overwritten
    if dialog.exec():
        then(Path(dialog.selectedFiles()[0]))
    dialog.deleteLater()


def _open(chosen: str, then: Then) -> None:
    if chosen:
        then(Path(chosen))


def dropped_path(event: QDropEvent) -> Path | None:
    """The one file or folder that is dropped; None for anything else."""
    urls = event.mimeData().urls()
    return Path(urls[0].toLocalFile()) if len(urls) == 1 and urls[0].isLocalFile() else None
