"""Names of runs beside each other: a line with what distinguishes them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from wina_app.shared.measured_sparsity import sparsity_name
from wina_app.shared.method_choices import WORDS
from wina_core.analysis.results.measured import DEFAULT_COUNT, Count

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import MetricRow

_APART = ("plan", "settings")
"""Fields that are named only where they differ."""
_HASH_DIGITS = 6


def name_runs(
    rows: "Sequence[MetricRow]", count: Count = DEFAULT_COUNT, *, with_sparsity: bool = True, unique: bool = True
) -> tuple[str, ...]:
    """Return the names of runs, each given by one row: method, rotation, selection, measured and target sparsity.

    Model, plan and settings are named where they differ. With `unique`, runs whose names are equal nevertheless get the
    beginning of their hash.
    """
    several_models = len({row.model_hash for row in rows}) > 1
    sparse = [row for row in rows if row.method != "dense"]
    differing = [key for key in _APART if len({getattr(row, key) for row in sparse}) > 1]
    names = [
        ", ".join(
            part
            for part in (
                row.model if several_models else "",
                row.method,
                row.rotation if row.rotation != "none" else "",
                cast(dict[str, str], WORDS).get(row.selection, row.selection) if row.method != "dense" else "",
                sparsity_name(row, count) if with_sparsity and row.method != "dense" else "",
                *(getattr(row, key) for key in differing if row.method != "dense"),
            )
            if part
        )
        for row in rows
    ]
    return tuple(
        f"{name}, {row.run[:_HASH_DIGITS]}" if unique and names.count(name) > 1 else name
        for name, row in zip(names, rows, strict=True)
    )
