"""Measured sparsity of runs beside their targets, in words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wina_app.style.number_format import percent
from wina_core.analysis.results.columns import WARNING
from wina_core.analysis.results.measured import (
    Count,
    SparsityRow,
    difference_text,
    mean_over_units,
    measured_sparsity,
    sparsity_of,
)
from wina_core.errors import WinaError

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.analysis.comparison.study_runs import StudyRun
    from wina_core.store import MetricRow
    from wina_core.store.reader import Reader


@dataclass(frozen=True)
class RunSparsity:
    """Target and measured sparsities of one run, as fractions."""

    target_sparsity: float
    gated_sparsity: float | None = None
    net_sparsity: float | None = None


def mean_sparsity(rows: "Sequence[MetricRow]") -> RunSparsity:
    """Return the sparsities of one run, averaged over the units of these rows: each unit measures its own."""
    gated = mean_over_units({row.unit: row.gated_sparsity for row in rows})
    net = mean_over_units({row.unit: row.net_sparsity for row in rows})
    return RunSparsity(rows[0].target_sparsity, gated, net)


def stored_runs(store: "Reader", rows: "Iterable[MetricRow]") -> "tuple[StudyRun | None, ...]":
    """Return the run of each row, with the means over all of its units; None for a run that was deleted meanwhile."""
    from wina_core.analysis.comparison.study_runs import stored_run

    def run_of(row: "MetricRow") -> "StudyRun | None":
        try:
            return stored_run(store, row.run)
        except WinaError:
            return None

    return tuple(map(run_of, rows))


def with_means(rows: "Iterable[MetricRow]", runs: "Iterable[StudyRun | None]") -> "tuple[MetricRow, ...]":
    """Return the rows with the mean sparsities of their runs in place of one unit's."""
    return tuple(
        row if run is None else row._replace(gated_sparsity=run.gated_sparsity, net_sparsity=run.net_sparsity)
        for row, run in zip(rows, runs, strict=True)
    )


def short_percent(fraction: float) -> str:
    """Return a chosen sparsity without needless zeros: 0.5 -> "50 %"."""
    return f"{100 * fraction:.4g} %"


def sparsity_name(row: SparsityRow, count: Count) -> str:
    """Return for example "67.7 % (target 65 %)", or "target 65 %" where nothing was measured."""
    target = f"target {short_percent(row.target_sparsity)}"
    return f"{percent(sparsity_of(row, count))} ({target})" if measured_sparsity(row, count) is not None else target


def sparsity_parts(row: SparsityRow, count: Count) -> list[str]:
    """Return everything known of a row's sparsity: the measured ones, the target, and by how far that is missed."""
    target = f"target {percent(row.target_sparsity)}"
    if measured_sparsity(row, count) is None:
        return [f"{target}, not measured"]
    texts = [f"{count} {percent(sparsity_of(row, count))}"]
    other: Count = "net" if count == "gated" else "gated"
    if measured_sparsity(row, other) is not None and row.gated_sparsity != row.net_sparsity:
        texts.append(f"{other} {percent(sparsity_of(row, other))}")
    miss = target_miss(sparsity_of(row, count), row.target_sparsity)
    return [*texts, target, *([miss] if miss else [])]


def target_miss(measured: float, target: float) -> str:
    """Return "⚠ 2.7 points sparser than its target" for what misses its target; "" within tolerance."""
    difference = difference_text(measured, target)
    return f"{WARNING} {difference} than its target" if difference else ""
