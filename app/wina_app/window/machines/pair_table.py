"""A small table of two columns with an empty row at the end."""

from collections.abc import Iterable, Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHeaderView, QTableWidget, QTableWidgetItem

from wina_app.style.theme import GRID


class PairTable(QTableWidget):
    """Pairs of texts; a row is removed by emptying it."""

    edited = Signal()

    def __init__(self, name: str, heads: Sequence[str]) -> None:
        super().__init__(1, 2)
        self.setAccessibleName(name)
        self.setHorizontalHeaderLabels(list(heads))
        self.verticalHeader().hide()
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self.setTabKeyNavigation(False)
        self.setMinimumHeight(GRID * 12)
        self.setMaximumHeight(GRID * 14)
        self.cellChanged.connect(self._on_edited)

    def show_pairs(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Show pairs, and an empty row."""
        rows = [*pairs, ("", "")]
        if rows == self._rows():
            return
        self.blockSignals(True)
        self.setRowCount(len(rows))
        for row, pair in enumerate(rows):
            for column, text in enumerate(pair):
                self.setItem(row, column, QTableWidgetItem(text))
        self.blockSignals(False)

    def pairs(self) -> list[tuple[str, str]]:
        """Return the rows that have a text."""
        return [pair for pair in self._rows() if any(pair)]

    def _rows(self) -> list[tuple[str, str]]:
        return [(self._text(row, 0), self._text(row, 1)) for row in range(self.rowCount())]

    def _text(self, row: int, column: int) -> str:
        item = self.item(row, column)
        return "" if item is None else item.text().strip()

    def _on_edited(self) -> None:
        rows = self._rows()
        if any(rows[-1]):
            self.setRowCount(len(rows) + 1)
        if all(map(all, self.pairs())):  # a half pair is still being typed
            self.edited.emit()
