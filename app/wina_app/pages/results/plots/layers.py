"""Measured and target sparsity of runs in each layer and projection."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from wina_app.pages.results.run_names import name_runs
from wina_app.shared.measured_sparsity import stored_runs, with_means
from wina_core.analysis.results.measured import DEFAULT_COUNT, Count
from wina_core.specs.plans import SparsityPlan, UniformSparsity

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import MetricRow, Store

Kind = Literal["target", "measured"]
MOST_RUNS = 8
"""Most runs of a selection that are shown together; more could not be distinguished."""
MEAN, EACH = "mean", "each"
"""Choices beside the projections: the plain mean over those that are gated, and all of them."""


@dataclass(frozen=True, eq=False)
class RunLayers:
    """One run over depth; both tables are [layers, projections], NaN where there is no data."""

    run: str
    name: str
    method: str
    projections: tuple[str, ...]
    target: np.ndarray | None
    """None where unknown, as for an allocation without results."""
    measured: np.ndarray | None
    """None where nothing was gated."""


@dataclass(frozen=True)
class ProfileLine:
    """One run's target or measured sparsity over depth."""

    run: str
    index: int
    """Index of the run in the selection."""
    name: str
    method: str
    kind: Kind
    projection: str
    """A projection or MEAN."""
    layers: tuple[int, ...]
    percent: tuple[float, ...]


def read_layers(store: "Store", rows: "Sequence[MetricRow]", count: Count = DEFAULT_COUNT) -> tuple[RunLayers, ...]:
    """Read the layers of each run, given by one of its rows, on the store's thread."""
    rows = with_means(rows[:MOST_RUNS], stored_runs(store, rows[:MOST_RUNS]))
    return tuple(_read(store, row, name) for row, name in zip(rows, name_runs(rows, count), strict=True))


def _read(store: "Store", row: "MetricRow", name: str) -> RunLayers:
    found, spec = store.layer_map(row.run), store.run_spec(row.run)
    plan = spec.plan if spec is not None else None
    measured = None if found is None else np.asarray(found.values, dtype=float)
    projections = found.projections if found is not None else ()
    target: np.ndarray | None = None
    if isinstance(plan, SparsityPlan) and measured is not None:
        target = _of_table(plan, projections, measured.shape)
    elif isinstance(plan, UniformSparsity) and measured is not None:
        target = np.where(np.isnan(measured), np.nan, plan.sparsity)
    elif plan is not None and (asked := store.layer_map(row.run, "target")) is not None:
        target = np.asarray(asked.values, dtype=float) if asked.projections == projections else None
    return RunLayers(row.run, name, row.method.partition(" ")[0], projections, target, measured)


def _of_table(plan: SparsityPlan, projections: Sequence[str], shape: tuple[int, ...]) -> np.ndarray | None:
    table = np.asarray(plan.sparsity, dtype=float)
    known = {name: table[:, at] for at, name in enumerate(plan.layout.projections)}
    if len(table) != shape[0]:
        return None
    return np.stack([known.get(name, np.full(len(table), np.nan)) for name in projections], axis=1)


def profile_choices(runs: Sequence[RunLayers]) -> tuple[str, ...]:
    """Return the choices of a profile: the mean, all projections, and each projection."""
    names = tuple(dict.fromkeys(name for run in runs for name in run.projections))
    return (MEAN, EACH, *names)


def profile_lines(runs: Sequence[RunLayers], projection: str) -> tuple[ProfileLine, ...]:
    """Return target and measured sparsity over depth, in percent, of the mean, of one projection or of each."""
    lines = []
    for index, run in enumerate(runs):
        names = run.projections if projection == EACH else (projection,)
        for name in names:
            for kind, table in _tables(run):
                values = None if table is None else _column(run, table, name)
                if values is None or np.isnan(values).all():
                    continue
                known = np.flatnonzero(~np.isnan(values))
                percent = tuple(float(100.0 * values[layer]) for layer in known)
                lines.append(
                    ProfileLine(
                        run.run, index, run.name, run.method, kind, name, tuple(int(at) for at in known), percent
                    )
                )
    return tuple(lines)


def _tables(run: RunLayers) -> tuple[tuple[Kind, np.ndarray | None], ...]:
    return ("target", run.target), ("measured", run.measured)


def _column(run: RunLayers, table: np.ndarray, name: str) -> np.ndarray | None:
    if name == MEAN:
        counts = (~np.isnan(table)).sum(axis=1)
        means = np.full(len(table), np.nan)
        np.divide(np.nansum(table, axis=1), counts, out=means, where=counts > 0)
        return means
    return table[:, run.projections.index(name)] if name in run.projections else None


def difference(first: RunLayers, second: RunLayers) -> tuple[tuple[str, ...], np.ndarray] | None:
    """Return the common projections, and the second's minus the first's measured sparsity, [layers, projections].

    None where the numbers of layers differ, no projection is common, or nothing was gated in one run.
    """
    if first.measured is None or second.measured is None or len(first.measured) != len(second.measured):
        return None
    names = tuple(name for name in first.projections if name in second.projections)
    before = first.measured[:, [first.projections.index(name) for name in names]]
    after = second.measured[:, [second.projections.index(name) for name in names]]
    return (names, after - before) if names else None
