"""The table "Will it pay here?": one row for each timed configuration."""

from collections.abc import Callable, Iterable
from typing import Any

from wina_app.style.translation import tr
from wina_app.widgets.table_model import Column, TableEntry, Value
from wina_core.analysis.comparison.worth import COLUMNS, WorthRow, table_row
from wina_core.records.texts import UNKNOWN

_WIDTHS = {
    "model": 11,
    "bits": 7,
    "rotation": 10,
    "method": 10,
    "verdict": 50,
    "machine": 30,
    "imported peer": 30,
    "pays up to batch": 20,
    "missing": 20,
    "fastest dense": 16,
}
_EXPLAINED = {
    "vs dense": tr("Decoding of one sequence over the fastest dense decoding in the same bits"),
    "fastest dense": tr("PyTorch's dense model, or our kernels at 0 %"),
    "imported peer": tr("The fastest imported point of this model, on this machine and in the same bits"),
    "vs peer": tr("Decoding of one sequence over the imported peer's"),
    "prompt tokens/s": tr("Tokens of the prompt, until the first new token"),
    "vs dense prompt": tr("The same over the dense model's"),
    "held MB": tr("Weights, norms and low-rank parts of the gated model"),
    "peak MB": tr("Largest memory while it decoded: of the process, or of the GPU"),
    "pays up to batch": tr("Largest measured batch up to which gating pays for every measured one"),
    "verdict": tr("The worse of dense and peer decides; pays if the whole range of the ratio is above 1"),
    "missing": tr("Parts that were not measured"),
}
_ORDER = (
    *("model", "bits", "rotation", "method", "sparsity", "verdict", "vs dense", "vs peer", "pays up to batch"),
    *("tokens/s", "dense tokens/s", "prompt tokens/s", "vs dense prompt", "held MB", "dense held MB", "peak MB"),
    *("measured", "fastest dense", "imported peer", "peer tokens/s", "missing", "machine"),
)
_PERCENT = ("sparsity", "measured")
_WORDS = ("model", "bits", "rotation", "method", "fastest dense", "imported peer", "pays up to batch", "verdict")
_TEXTS = (*_WORDS, "missing", "machine")


def _cell(name: str) -> Callable[[WorthRow], Any]:
    at = COLUMNS.index(name)
    scale = 100.0 if name in _PERCENT else 1.0

    def value(row: WorthRow) -> Value:
        cell: Value = table_row(row)[at]
        return scale * cell if isinstance(cell, float) else cell

    return value


def _column(name: str) -> Column:
    value = _cell(name)

    def text(row: WorthRow) -> str:
        cell = value(row)
        return UNKNOWN if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell)

    title = f"{name} %" if name in _PERCENT else name
    width = _WIDTHS.get(name, max(8, len(title)))
    return Column(name, title, value, text, name not in _TEXTS, width, _EXPLAINED.get(name, ""))


WORTH_COLUMNS = tuple(map(_column, _ORDER))


class WorthEntry(TableEntry):
    """A configuration on a machine."""

    columns = WORTH_COLUMNS
    row: WorthRow


def worth_entries(rows: Iterable[WorthRow]) -> list[WorthEntry]:
    """Return an entry for each row."""
    return [WorthEntry((*row.machine, row.row.point), row) for row in rows]
