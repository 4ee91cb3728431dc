"""Table of a study's runs, method by sparsity, and the legend of their states."""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QColor, QIcon, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QHeaderView, QLabel, QTableWidget, QTableWidgetItem, QWidget

from wina_app.shared.run_grid import STATE_WORDS, Cell, CellState, Grid
from wina_app.style.icons import icon
from wina_app.style.theme import GRID, HALF, notifier, state_colour
from wina_app.widgets.controls import side_by_side, text_label
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.plain_text import plain_tip

_ROW_NAMES_WIDTH = GRID * 32
"""Most pixels of the row names, so that the runs stay in sight."""
_DRAWN: tuple[CellState, ...] = ("done", "running", "paused", "queued", "failed")
"""States with an icon; all others have words only."""
_RUN = Qt.ItemDataRole.UserRole
_ICON = 14


class RunGrid(QTableWidget):
    """Read-only table of runs; a click on one with results emits `run_chosen`."""

    run_chosen = Signal(str)
    """Hash of the run."""

    def __init__(self) -> None:
        super().__init__()
        self.grid: Grid | None = None
        """Grid shown."""
        self.setAccessibleName("Runs: method by sparsity, and their stored parts")
        self.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        self.setMouseTracking(True)
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.horizontalHeader().setMinimumSectionSize(GRID * 8)
        self.horizontalHeader().setDefaultAlignment(left)
        self.verticalHeader().setDefaultAlignment(left)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.verticalHeader().setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.verticalHeader().setMaximumWidth(_ROW_NAMES_WIDTH)
        self.cellClicked.connect(self._choose)
        notifier().changed.connect(self._restyle)

    def show_grid(self, grid: Grid | None) -> None:
        """Show the runs and their states; None clears the table."""
        if grid == self.grid:
            return
        before, self.grid = self.grid, grid
        if before is None or grid is None or (before.rows, before.columns) != (grid.rows, grid.columns):
            self._fill(grid)
        else:
            self._update(before, grid)

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
        icons = _icons()
        for i, row in enumerate(grid.rows):
            for j, name in enumerate(grid.columns):
                self.setItem(i, j, _item(grid.cells.get((row, name)), icons))

    def _update(self, before: Grid, grid: Grid) -> None:
        """Replace the cells that changed: a study may have thousands."""
        icons = _icons()
        for i, row in enumerate(grid.rows):
            for j, name in enumerate(grid.columns):
                cell = grid.cells.get((row, name))
                if cell != before.cells.get((row, name)):
                    self.setItem(i, j, _item(cell, icons))

    def _restyle(self) -> None:
        self._fill(self.grid)

    def _choose(self, row: int, column: int) -> None:
        item = self.item(row, column)
        if item is not None and (run := item.data(_RUN)):
            self.run_chosen.emit(run)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Show a hand over runs that can be chosen."""
        item = self.itemAt(event.position().toPoint())
        chosen = item is not None and bool(item.data(_RUN))
        self.viewport().setCursor(Qt.CursorShape.PointingHandCursor if chosen else Qt.CursorShape.ArrowCursor)
        super().mouseMoveEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Choose the current run on Enter."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not event.modifiers():
            self._choose(self.currentRow(), self.currentColumn())
        else:
            super().keyPressEvent(event)


class RunLegend(QWidget):
    """The states in a grid with their numbers, and the metric in its cells."""

    def __init__(self) -> None:
        super().__init__()
        self._grid: Grid | None = None
        self._metric = text_label("", "muted")
        row = FlowLayout(self, spacing=2 * GRID)
        self._states: dict[CellState, tuple[QWidget, QLabel, QLabel]] = {}
        for state in STATE_WORDS:
            drawing, word = text_label(""), text_label("")
            entry = side_by_side(*([drawing] if state in _DRAWN else []), word, spacing=HALF)
            self._states[state] = entry, drawing, word
            row.addWidget(entry)
        row.addWidget(self._metric)
        notifier().changed.connect(self._restyle)
        self.show_grid(None)

    def show_grid(self, grid: Grid | None) -> None:
        """Show the states that occur."""
        self._grid = grid
        for state, (entry, drawing, word) in self._states.items():
            count = grid.count(state) if grid else 0
            entry.setVisible(count > 0)
            word.setText(f"{count:,} {STATE_WORDS[state]}")
            if state in _DRAWN and count:
                drawing.setPixmap(_icon(state).pixmap(QSize(_ICON, _ICON)))
        metric = grid.metric if grid else ""
        self._metric.setText(f"Cells: {metric}; click one to see the run" if metric else "")
        self._metric.setVisible(bool(metric))

    def _restyle(self) -> None:
        self.show_grid(self._grid)


def _icon(state: CellState) -> QIcon:
    return icon(state, state_colour(state).name())


def _icons() -> dict[CellState, QIcon]:
    return {state: _icon(state) for state in _DRAWN}


def _item(cell: Cell | None, icons: dict[CellState, QIcon]) -> QTableWidgetItem:
    """Return a cell: the first metric or the state in words, with the icon and colour of its state."""
    item = QTableWidgetItem("" if cell is None else cell.text)
    item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable)
    if cell is None:
        return item
    if cell.state in _DRAWN:
        item.setIcon(icons[cell.state])
    if cell.state in _DRAWN and cell.first is None:
        item.setForeground(QColor(state_colour(cell.state)))
    if cell.missing < cell.units:
        item.setData(_RUN, cell.run)
    item.setToolTip(plain_tip(_tip(cell)))
    item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{STATE_WORDS[cell.state]}: {cell.text}")
    return item


def _tip(cell: Cell) -> str:
    word = STATE_WORDS[cell.state]
    lines = [word[:1].upper() + word[1:]]
    if cell.state == "failed":
        lines[0] = f"Failed: {cell.error}"
    if cell.first is not None:
        lines.append(f"{cell.first.name}: {cell.first.text}")
    stored = cell.units - cell.missing
    lines.append(f"Run {cell.run}: {stored} of {cell.units} measurements stored")
    if stored:
        lines.append("Click to show it in Results")
    return "\n".join(lines)
