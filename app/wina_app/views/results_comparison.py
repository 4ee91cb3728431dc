"""Two runs compared task by task: differences with intervals and p, to be read, copied and exported."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QVBoxLayout, QWidget

from wina_app.models.results_comparison import COLUMNS, RunPair, entries
from wina_app.models.row_table import RowTable
from wina_app.theme import GRID
from wina_app.views.controls import text_label
from wina_app.views.row_table_view import RowTableView

_UNPAIRED = (
    "Some comparisons are not paired, since no document's answers are stored: run the study again with \"Keep every "
    "document's answers\" for narrower intervals."
)


class ResultsComparison(QDialog):
    """Names both runs over the table; Copy takes all of it."""

    def __init__(self, pair: RunPair, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Compare two runs")
        self.resize(150 * GRID, 52 * GRID)
        self._pair = pair
        self._table = RowTable(COLUMNS)
        self._table.set_entries(entries(pair.comparisons))
        self.table = RowTableView("Differences by task")
        self.table.show_table(self._table)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        copy = buttons.addButton("Copy", QDialogButtonBox.ButtonRole.ActionRole)
        copy.setAccessibleName("Copy the comparison")
        copy.clicked.connect(self._copy)
        buttons.rejected.connect(self.reject)
        buttons.button(QDialogButtonBox.StandardButton.Close).setFocus()
        column = QVBoxLayout(self)
        column.setSpacing(GRID)
        for name, run in (("A", pair.first), ("B", pair.second)):
            label = text_label(f"{name}:  {run}", "section", wrap=True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            column.addWidget(label)
        if pair.unpaired:
            column.addWidget(text_label(_UNPAIRED, "muted", wrap=True))
        column.addWidget(self.table, 1)
        column.addWidget(buttons)

    def _copy(self) -> None:
        text = self._table.text_of(range(self._table.rowCount()))
        QGuiApplication.clipboard().setText(f"A\t{self._pair.first}\nB\t{self._pair.second}\n{text}")
