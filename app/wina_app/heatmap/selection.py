"""The selected cells of a layers x projections table: an immutable value with spreadsheet habits."""

from dataclasses import dataclass, replace

from wina_core.specs.plans import Cell


@dataclass(frozen=True)
class Selection:
    """A rectangle between anchor and cursor, added to (or, when `removing`, taken from) earlier cells."""

    rows: int
    columns: int
    anchor: Cell | None = None
    cursor: Cell | None = None
    earlier: frozenset[Cell] = frozenset()
    removing: bool = False

    @property
    def cells(self) -> frozenset[Cell]:
        rectangle = self._rectangle()
        return self.earlier - rectangle if self.removing else self.earlier | rectangle

    def click(self, cell: Cell, extend: bool = False, toggle: bool = False) -> "Selection":
        """Select one cell; `extend` stretches the rectangle to it, `toggle` adds or removes it."""
        return self._span(self.anchor if extend and self.anchor else cell, cell, extend, toggle)

    def drag_to(self, cell: Cell) -> "Selection":
        """Stretch the present rectangle to a cell, clamped to the table."""
        row, column = (min(max(cell[0], 0), self.rows - 1), min(max(cell[1], 0), self.columns - 1))
        return replace(self, cursor=(row, column))

    def click_row(self, row: int, extend: bool = False, toggle: bool = False) -> "Selection":
        """Select a whole row, or with `extend` all rows from the anchor's."""
        start = self.anchor[0] if extend and self.anchor else row
        return self._span((start, self.columns - 1), (row, 0), extend, toggle)

    def click_column(self, column: int, extend: bool = False, toggle: bool = False) -> "Selection":
        """Select a whole column, or with `extend` all columns from the anchor's."""
        start = self.anchor[1] if extend and self.anchor else column
        return self._span((self.rows - 1, start), (0, column), extend, toggle)

    def all(self) -> "Selection":
        return self._span((self.rows - 1, self.columns - 1), (0, 0), extend=False, toggle=False)

    def none(self) -> "Selection":
        return Selection(self.rows, self.columns)

    def move(self, down: int, right: int, extend: bool = False) -> "Selection":
        """Move the cursor, clamped to the table; `extend` keeps the anchor."""
        start = self.cursor or (0, 0)
        moved = self.drag_to((start[0] + down, start[1] + right) if self.cursor else start)
        if extend and self.anchor is not None:
            return moved
        return Selection(self.rows, self.columns, anchor=moved.cursor, cursor=moved.cursor)

    def _span(self, anchor: Cell, cursor: Cell, extend: bool, toggle: bool) -> "Selection":
        if extend:
            return replace(self, anchor=anchor, cursor=cursor)
        single = Selection(self.rows, self.columns, anchor, cursor)
        if not toggle:
            return single
        # Whether a drag adds or removes is decided by the cell where it begins, as in a spreadsheet.
        return replace(single, earlier=self.cells, removing=single.cells <= self.cells)

    def _rectangle(self) -> frozenset[Cell]:
        if self.anchor is None or self.cursor is None:
            return frozenset()
        top, bottom = sorted((self.anchor[0], self.cursor[0]))
        left, right = sorted((self.anchor[1], self.cursor[1]))
        return frozenset((r, c) for r in range(top, bottom + 1) for c in range(left, right + 1))
