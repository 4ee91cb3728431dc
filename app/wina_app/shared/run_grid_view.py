"""Table of a study's runs: method by sparsity."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QIcon
from PySide6.QtWidgets import QHeaderView, QTableWidget, QTableWidgetItem

from wina_app.shared.run_grid import Cell, Grid
from wina_app.style.icons import icon
from wina_app.style.theme import GRID, notifier, state_colour
from wina_app.style.translation import tr
from wina_app.widgets.plain_text import plain_tip

_ARM_WIDTH = GRID * 32
"""Most pixels of the row names, so that the runs stay in sight."""
_STATES = ("done", "queued")
"""States with an icon; all others have words only."""


class RunGrid(QTableWidget):
    """Read-only table of runs."""

    def __init__(self) -> None:
        super().__init__()
        self.grid: Grid | None = None
        """Grid shown."""
        self.setAccessibleName(tr("Runs: method by sparsity, and their stored parts"))
        self.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.horizontalHeader().setMinimumSectionSize(GRID * 8)
        self.horizontalHeader().setDefaultAlignment(left)
        self.verticalHeader().setDefaultAlignment(left)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.verticalHeader().setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.verticalHeader().setMaximumWidth(_ARM_WIDTH)
        notifier().changed.connect(self._restyle)

    def show_grid(self, grid: Grid | None) -> None:
        """Show the runs and their stored parts; None clears the table."""
        if grid != self.grid:
            self.grid = grid
            self._fill(grid)

    def _fill(self, grid: Grid | None) -> None:
        self.setRowCount(len(grid.rows) if grid else 0)
        self.setColumnCount(len(grid.columns) if grid else 0)
        if grid is None:
            return
        for i, row in enumerate(grid.rows):
            configuration = QTableWidgetItem(row)
            configuration.setToolTip(plain_tip(row))
            self.setVerticalHeaderItem(i, configuration)
        self.setHorizontalHeaderLabels(list(grid.columns))
        icons = {state: icon(state, state_colour(state).name()) for state in _STATES}
        for i, row in enumerate(grid.rows):
            for j, name in enumerate(grid.columns):
                self.setItem(i, j, _item(grid.cells.get((row, name)), icons))

    def _restyle(self) -> None:
        self._fill(self.grid)


def _item(cell: Cell | None, icons: dict[str, QIcon]) -> QTableWidgetItem:
    """Return a cell in words, with the icon and colour of its state."""
    item = QTableWidgetItem("" if cell is None else cell.text)
    item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable)
    if cell is not None:
        if cell.state:
            item.setIcon(icons[cell.state])
            item.setForeground(QColor(state_colour(cell.state)))
        item.setToolTip(
            tr(
                "Run {run}: {stored} of {units} measurements stored",
                run=cell.run,
                stored=cell.units - cell.missing,
                units=cell.units,
            )
        )
    return item
