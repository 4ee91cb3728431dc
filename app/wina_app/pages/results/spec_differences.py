"""Differences between the specs of several runs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from wina_app.style.translation import tr
from wina_app.widgets.table_model import Column, TableEntry
from wina_core.records.texts import UNKNOWN

_LONGEST = 60


def spec_differences(specs: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return (setting as "method.name", its value in each spec) of the settings that differ, in the specs' order."""
    flat = [dict(_flatten(spec)) for spec in specs]
    names = dict.fromkeys(name for one in flat for name in one)
    return tuple(
        (name, tuple(_text(one[name]) if name in one else UNKNOWN for one in flat))
        for name in names
        if any(one.get(name) != flat[0].get(name) or (name in one) != (name in flat[0]) for one in flat)
    )


def _flatten(spec: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in spec.items():
        path = f"{above}{name}"
        found += _flatten(value, f"{path}.") if isinstance(value, Mapping) and value else [(path, value)]
    return found


def _text(value: Any) -> str:
    """Return a value as JSON; a table of numbers as its size and mean."""
    if isinstance(value, list) and value and all(isinstance(row, list) and row for row in value):
        cells = [cell for row in value for cell in row]
        if all(isinstance(cell, int | float) for cell in cells):
            mean = sum(cells) / len(cells)
            return tr(
                "{rows} x {columns} numbers, mean {mean}", rows=len(value), columns=len(value[0]), mean=f"{mean:.4g}"
            )
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"


class DifferenceEntry(TableEntry):
    """One setting with its value in each run."""

    def __init__(self, row: tuple[str, tuple[str, ...]], columns: tuple[Column, ...]) -> None:
        self.columns = columns
        super().__init__((row[0],), row)


def difference_columns(letters: str) -> tuple[Column, ...]:
    """Return a column of settings, then one for each run."""

    def cell(at: int) -> Column:
        return Column(letters[at], letters[at], lambda row: row[1][at], lambda row: row[1][at], width=18)

    setting = Column("setting", tr("setting"), lambda row: row[0], lambda row: row[0], width=20)
    return (setting, *map(cell, range(len(letters))))
