"""Tables of imported points, with a column for each metric that is there."""

from collections.abc import Sequence
from typing import Any

from wina_app.style.translation import tr
from wina_app.widgets.table_model import Column, RowTable, TableEntry, Value
from wina_core.records.imports import StoredImport
from wina_core.records.texts import UNKNOWN
from wina_core.store.imported.metrics import METRICS
from wina_core.store.imported.table_rows import FIXED, import_rows

_FIRST = ("name", "model", "file", "date")
_LAST = ("tool", "version", "hardware", "settings", "date of", "imported")
_WIDTHS = {"name": 24, "model": 12, "file": 18, "date": 10, "settings": 40, "hardware": 24, "version": 18}
_LARGE = 1e4
_EXPLAINED = {
    "date": tr("Of the measurement, or of the import where the file states none"),
    "imported": tr("Marks these points wherever they are joined with measured ones"),
    **{metric.column: f"{metric.meaning} ({metric.unit})" for metric in METRICS.values()},
}


def imports_table(imports: Sequence[StoredImport]) -> RowTable:
    """Return the points of all files, the last imported first; a row is (import, cells)."""
    names, rows = import_rows(imports)
    metrics = [name for name in names if name not in FIXED]
    columns = tuple(_column(name, names.index(name), name in metrics) for name in (*_FIRST, *metrics, *_LAST))
    table = RowTable(columns)
    kind = type("ImportEntry", (TableEntry,), {"columns": columns})
    table.set_entries(kind((str(number),), cells) for number, cells in enumerate(rows))
    return table


def _column(name: str, at: int, numeric: bool) -> Column:
    def value(cells: Sequence[Any]) -> Value:
        cell: Value = cells[at]
        return cell

    def text(cells: Sequence[Any]) -> str:
        cell = cells[at]
        if cell is None:
            return UNKNOWN
        if isinstance(cell, bool):
            return tr("yes") if cell else tr("no")
        return (f"{cell:,.0f}" if abs(cell) >= _LARGE else f"{cell:.4g}") if isinstance(cell, float) else str(cell)

    return Column(name, name, value, text, numeric, _WIDTHS.get(name, 9), _EXPLAINED.get(name, ""))
