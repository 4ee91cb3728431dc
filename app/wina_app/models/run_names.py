"""What runs are called beside each other: what sets them apart, in one line."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wina_app.models.gate_choices import WORDS
from wina_app.quantities import percent

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import MetricRow

_APART = ("plan", "settings")
"""Of these only what is not the same for all is said."""
_HASH_DIGITS = 6


def name_runs(rows: "Sequence[MetricRow]", *, with_sparsity: bool = True) -> tuple[str, ...]:
    """One row of each run -> its name: method, rotation, selection, sparsity, and of model, plan and settings only what
    differs. Runs that even so have one name get the beginning of their hash."""
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
                WORDS.get(row.selection, row.selection) if row.method != "dense" else "",
                percent(row.target_sparsity) if with_sparsity and row.method != "dense" else "",
                *(getattr(row, key) for key in differing if row.method != "dense"),
            )
            if part
        )
        for row in rows
    ]
    return tuple(
        f"{name}, {row.run[:_HASH_DIGITS]}" if names.count(name) > 1 else name
        for name, row in zip(names, rows, strict=True)
    )
