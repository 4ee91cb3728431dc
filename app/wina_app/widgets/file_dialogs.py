"""File dialogs for opening and saving, and paths dropped onto the window."""

import re
from collections.abc import Callable
from pathlib import Path

from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QFileDialog, QInputDialog, QMessageBox, QWidget

Then = Callable[[Path], object]
"""Called with the chosen path."""


def choose_model_folder(parent: QWidget, then: Then) -> None:
    _open(QFileDialog.getExistingDirectory(parent, "Open model folder"), then)


def choose_gguf_file(parent: QWidget, then: Then) -> None:
    _open(QFileDialog.getOpenFileName(parent, "Open GGUF file", "", "GGUF file (*.gguf)")[0], then)


def choose_study(parent: QWidget, then: Then) -> None:
    _open(QFileDialog.getOpenFileName(parent, "Open study", "", "Study (*.toml *.json)")[0], then)


def choose_database(parent: QWidget, then: Then) -> None:
    kinds = "Results database (*.sqlite *.db);;All files (*)"
    _open(QFileDialog.getOpenFileName(parent, "Open results database", "", kinds)[0], then)


def ask_database_address(parent: QWidget, then: Callable[[str], object]) -> None:
    """Ask for the address of a database on a server."""
    label = "Address, for example postgresql://anna@db.example.org/results\n(a password in it is not stored)"
    address, chosen = QInputDialog.getText(parent, "Open database on a server", label)
    if chosen and address.strip():
        then(address.strip())


def choose_new_database(parent: QWidget, then: Then) -> None:
    choose_new_file(parent, "New results database", "results.sqlite", "Results database", then)


def choose_new_file(parent: QWidget, title: str, name: str, kind: str, then: Then) -> None:
    """Ask for a file that does not exist; `name` is proposed, and a name without a suffix gets that of `name`."""
    suffix = Path(name).suffix
    dialog = QFileDialog(parent, title, name, f"{kind} (*{suffix})")
    dialog.setDefaultSuffix(suffix)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setOption(QFileDialog.Option.DontConfirmOverwrite)  # an existing file is never overwritten
    if dialog.exec():
        then(Path(dialog.selectedFiles()[0]))
    dialog.deleteLater()


def _open(chosen: str, then: Then) -> None:
    if chosen:
        then(Path(chosen))


def save_as(parent: QWidget, title: str, name: str, formats: str) -> Path | None:
    """Ask where to save, and before replacing a file; return None if the user cancels.

    `formats` are filters of QFileDialog. A name without any of their suffixes gets the first suffix of the chosen one.
    """
    while True:
        chosen, kind = QFileDialog.getSaveFileName(parent, title, name, formats)
        if not chosen:
            return None
        path = _completed(Path(chosen), kind or formats, formats)
        if path == Path(chosen) or not path.exists() or _may_replace(parent, title, path):
            return path
        name = chosen


def _completed(path: Path, kind: str, formats: str) -> Path:
    suffixes = re.findall(r"\*(\.\w+)", formats)
    return path if path.suffix.lower() in suffixes else path.with_name(path.name + re.findall(r"\*(\.\w+)", kind)[0])


def _may_replace(parent: QWidget, title: str, path: Path) -> bool:
    """Ask about the name with its suffix; the dialog has asked about the name as typed."""
    text = f'"{path.name}" exists already. Do you want to replace it?'
    return QMessageBox.question(parent, title, text) == QMessageBox.StandardButton.Yes


def dropped_path(event: QDropEvent) -> Path | None:
    """Return the file or folder dropped, or None for anything else or more than one."""
    urls = event.mimeData().urls()
    return Path(urls[0].toLocalFile()) if len(urls) == 1 and urls[0].isLocalFile() else None
