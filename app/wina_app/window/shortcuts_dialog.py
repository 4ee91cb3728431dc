"""A table of all keyboard shortcuts."""

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QDialog, QHeaderView, QTableWidget, QTableWidgetItem, QVBoxLayout, QWidget

from wina_app.style.theme import GRID, scaled
from wina_app.style.translation import tr
from wina_app.window.command_palette import Entry

_OF_SCREEN = 0.9


class ShortcutsDialog(QDialog):
    """A dialog built from the actions themselves, so that it is always up to date."""

    def __init__(self, parent: QWidget, entries: Sequence[Entry]) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Keyboard shortcuts"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        listed = [entry for entry in entries if entry.keys]
        self.table = QTableWidget(len(listed), 3)
        self.table.setAccessibleName(tr("Keyboard shortcuts"))
        self.table.setHorizontalHeaderLabels([tr("Keys"), tr("Command"), tr("Where")])
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
