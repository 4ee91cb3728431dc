"""Shown columns of the results table and their order, kept between starts."""

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

from wina_core.analysis.results.columns import COLUMNS, ResultColumn

_HIDDEN = "-"
"""Prefix of a hidden column's key in `written`."""


class ColumnChoice(QObject):
    """Order of the columns, and the shown ones among them.

    At least one column is shown. Rows of runs and of metrics have most columns in common, which are chosen once.
    """

    changed = Signal()
    """Other columns are offered or chosen."""
    chosen = Signal()
    """The user chose other columns, to be remembered."""

    def __init__(self, written: Sequence[str] = ()) -> None:
        """`written` is an earlier choice, as the property has it; columns that it lacks have their usual places, and
        keys that are no columns any more are ignored."""
        super().__init__()
        self._offered: tuple[ResultColumn, ...] = COLUMNS
        self._order: list[str] = []
        self._visible: dict[str, bool] = {}
        for entry in written:
            key = entry.removeprefix(_HIDDEN)
            if key not in self._visible:
                self._order.append(key)
                self._visible[key] = not entry.startswith(_HIDDEN)
        self._complete()

    @property
    def written(self) -> list[str]:
        """The choice as the settings store it."""
        return [key if self._visible[key] else _HIDDEN + key for key in self._order]

    @property
    def offered(self) -> list[tuple[ResultColumn, bool]]:
        """All columns in their order, each with whether it is shown."""
        columns = {column.key: column for column in self._offered}
        return [(columns[key], self._visible[key]) for key in self._order if key in columns]

    def visible_keys(self) -> list[str]:
        return [column.key for column, visible in self.offered if visible]

    def offer(self, columns: tuple[ResultColumn, ...]) -> None:
        """Replace the offered columns, as in the table of a study."""
        if columns != self._offered:
            self._offered = columns
            self._complete()
            self.changed.emit()

    def show(self, key: str, visible: bool = True) -> None:
        """Show or hide a column; the last one stays."""
        if visible != self._visible[key] and (visible or len(self.visible_keys()) > 1):
            self._visible[key] = visible
            self._choose()

    def move(self, keys: Sequence[str]) -> None:
        """Put these columns into this order, in the places that they occupy now; the others stay."""
        positions = [position for position, key in enumerate(self._order) if key in keys]
        order = list(self._order)
        for position, key in zip(positions, keys, strict=True):
            order[position] = key
        if order != self._order:
            self._order = order
            self._choose()

    def reset(self) -> None:
        self._order, self._visible = [], {}
        self._complete()
        self._choose()

    def _choose(self) -> None:
        self.changed.emit()
        self.chosen.emit()

    def _complete(self) -> None:
        # A column that an earlier choice lacks goes behind its usual predecessor.
        before = ""
        for column in self._offered:
            if column.key not in self._visible:
                self._order.insert(self._order.index(before) + 1 if before else 0, column.key)
                self._visible[column.key] = column.usual
            before = column.key
