"""Dialogs of the window: About, keyboard shortcuts, and the question on closing it."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Literal

import PySide6
from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QDialog, QHeaderView, QMessageBox, QTableWidget, QTableWidgetItem, QVBoxLayout, QWidget

from wina_app.services.workbench import Workbench
from wina_app.style.icons import icon
from wina_app.style.number_format import plural
from wina_app.style.theme import GRID, scaled
from wina_app.window.menus import Entry
from wina_core.files import paths

ClosingChoice = Literal["cancel", "background", "stay"]
"""Cancel the jobs and quit, quit and let them run, or keep the window."""

_OF_SCREEN = 0.9


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


class ShortcutsDialog(QDialog):
    """A dialog built from the actions themselves, so that it is always up to date."""

    def __init__(self, parent: QWidget, entries: Sequence[Entry]) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard shortcuts")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        listed = [entry for entry in entries if entry.keys]
        self.table = QTableWidget(len(listed), 3)
        self.table.setAccessibleName("Keyboard shortcuts")
        self.table.setHorizontalHeaderLabels(["Keys", "Command", "Where"])
        self.table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        self.table.setSelectionBehavior(QTableWidget.SelectionBehavior.SelectRows)
        self.table.setTabKeyNavigation(False)
        self.table.verticalHeader().hide()
        self.table.setShowGrid(False)
        for row, entry in enumerate(listed):
            for index, text in enumerate((entry.keys, entry.text, entry.where)):
                item = QTableWidgetItem(text)
                item.setToolTip(text)
                self.table.setItem(row, index, item)
        self.table.resizeColumnsToContents()
        self.table.horizontalHeader().setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID * 2, GRID * 2, GRID * 2, GRID * 2)
        column.addWidget(self.table)
        size = QSize(scaled(GRID * 85), scaled(GRID * 70))
        self.resize(size.boundedTo(self.screen().availableSize() * _OF_SCREEN))
