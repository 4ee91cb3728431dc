"""Shown columns of the results table and their order, kept between starts."""

from collections.abc import Collection, Mapping, Sequence

from PySide6.QtCore import QObject, Signal

from wina_core.results.columns import COLUMNS, ResultColumn

NEVER_COMMON = frozenset({"value"})
"""Columns that are shown even where all rows have the same value."""
_HIDDEN = "-"
"""Prefix of a hidden column's key in `written`."""


class ColumnChoice(QObject):
    """Order of the columns, and the shown ones among them; at least one is shown."""

    changed = Signal()

    def __init__(self, written: Sequence[str] = ()) -> None:
        """`written` is an earlier choice, as the property has it; columns that it lacks have their usual places, and
        keys that are no columns any more are ignored."""
        super().__init__()
        self._offered: tuple[ResultColumn, ...] = COLUMNS
        self._order: list[str] = []
        self._shown: dict[str, bool] = {}
        for entry in written:
            key = entry.removeprefix(_HIDDEN)
            if key not in self._shown:
                self._order.append(key)
                self._shown[key] = key == entry
        self._complete()

    @property
    def written(self) -> list[str]:
        """The choice as the settings store it."""
        return [key if self._shown[key] else _HIDDEN + key for key in self._order]

    @property
    def offered(self) -> list[tuple[ResultColumn, bool]]:
        """All columns there are in their order, and whether each is shown."""
        columns = {column.key: column for column in self._offered}
        return [(columns[key], self._shown[key]) for key in self._order if key in columns]

    def shown(self) -> list[str]:
        """Keys of the shown columns in their order."""
        return [column.key for column, shown in self.offered if shown]

    def shown_without(self, common: Collection[str]) -> list[str]:
        """Return the shown keys without those of columns that are the same in all rows, but with NEVER_COMMON's."""
        return [key for key in self.shown() if key in NEVER_COMMON or key not in common]

    def offer(self, columns: tuple[ResultColumn, ...]) -> None:
        """Replace the offered columns, as in the table of a study."""
        if columns != self._offered:
            self._offered = columns
            self._complete()
            self.changed.emit()

    def show(self, key: str, shown: bool = True) -> None:
        """Show or hide a column; the last one stays."""
        if shown != self._shown[key] and (shown or len(self.shown()) > 1):
            self._shown[key] = shown
            self.changed.emit()

    def move(self, keys: Sequence[str]) -> None:
        """Put these columns into this order, at the places that they have together."""
        places = [place for place, key in enumerate(self._order) if key in keys]
        order = list(self._order)
        for place, key in zip(places, keys, strict=True):
            order[place] = key
        if order != self._order:
            self._order = order
            self.changed.emit()

    def reset(self) -> None:
        """Restore the usual columns in the usual order."""
        self._order, self._shown = [], {}
        self._complete()
        self.changed.emit()

    def _complete(self) -> None:
        before = ""
        for column in self._offered:
            if column.key not in self._shown:
                self._order.insert(self._order.index(before) + 1 if before else 0, column.key)
                self._shown[column.key] = column.usual
            before = column.key


def common_text(common: Mapping[str, str], columns: Sequence[ResultColumn], shown: Collection[str]) -> str:
    """Return the shown columns that are the same in all rows, in one line: "model demo-llama, selection topk"."""
    return ", ".join(
        f"{column.title} {common[column.key]}"
        for column in columns
        if column.key in shown and column.key not in NEVER_COMMON and common.get(column.key)
    )
