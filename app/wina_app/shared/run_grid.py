"""States and first metrics of a study's runs, by configuration and sparsity."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from wina_app.jobs.job_entry import JobEntry
from wina_app.shared.method_choices import WORDS
from wina_core.jobs import EvaluateJob, PendingRun
from wina_core.records import noise_of
from wina_core.specs import DENSE, FIDELITY, ORIGINAL, Configuration, RunSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.studies.published import display_scale, preferred_metric

DENSE_COLUMN = "dense"
PLAN_COLUMN = "plan"
CellState = Literal["done", "running", "paused", "queued", "failed", "partial", "to do"]
STATE_WORDS: dict[CellState, str] = {
    "to do": "to do",
    "queued": "queued",
    "running": "running",
    "paused": "paused",
    "partial": "partly stored",
    "done": "stored",
    "failed": "failed",
}
_KL_NAMES = {
    (ORIGINAL, "kl"): "KL from the original (nats per token)",
    (FIDELITY, "kl"): "KL from the model without gates (nats per token)",
}


@dataclass(frozen=True)
class FirstMetric:
    """The metric of a run's first task, or else the KL from the original or from the model without gates."""

    task: str
    metric: str
    value: float

    @property
    def name(self) -> str:
        """Return metric and task, or the reference and unit of a KL divergence."""
        return _KL_NAMES.get((self.task, self.metric)) or f"{self.metric} of {self.task}"

    @property
    def text(self) -> str:
        """Return the value, fractions in percent."""
        if abs(self.value) < noise_of(self.metric):
            return "0"
        scale = display_scale(self.metric)
        return f"{scale * self.value:.1f} %" if scale != 1.0 else f"{self.value:.4g}"


@dataclass(frozen=True)
class Cell:
    """State of one run: its stored units, and its part in the jobs of this window."""

    run: str
    units: int
    missing: int
    queued: bool = False
    running: bool = False
    paused: bool = False
    error: str = ""
    """Reason why it failed last time; empty if it did not."""
    first: FirstMetric | None = None

    @property
    def state(self) -> CellState:
        if self.missing == 0:
            return "done"
        if self.running:
            return "paused" if self.paused else "running"
        if self.error:
            return "failed"
        if self.queued:
            return "queued"
        return "to do" if self.missing == self.units else "partial"

    @property
    def text(self) -> str:
        """Return the first metric of a complete run, else the state in words."""
        if self.state == "done" and self.first is not None:
            return self.first.text
        if self.state == "partial":
            return f"{self.units - self.missing} of {self.units} stored"
        return STATE_WORDS[self.state]


@dataclass(frozen=True)
class Grid:
    """Runs by configuration (rows) and sparsity with its allocator (columns)."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]

    @property
    def to_do(self) -> int:
        return sum(cell.missing > 0 and not cell.queued for cell in self.cells.values())

    @property
    def stored(self) -> int:
        return sum(cell.missing == 0 for cell in self.cells.values())

    @property
    def queued(self) -> int:
        """Return the number of incomplete runs in this window's jobs."""
        return sum(cell.missing > 0 and cell.queued for cell in self.cells.values())

    def count(self, state: CellState) -> int:
        return sum(cell.state == state for cell in self.cells.values())

    @property
    def metric(self) -> str:
        """Return the name of the metric in the cells; empty where there is none, or several."""
        names = {cell.first.name for cell in self.cells.values() if cell.first}
        return names.pop() if len(names) == 1 else ""


def make_grid(
    runs: Sequence[RunSpec],
    missing: Mapping[str, int],
    queued: frozenset[str] = frozenset(),
    rows: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
    metrics: Mapping[str, FirstMetric] | None = None,
) -> Grid:
    """Return the grid of runs in their order.

    `missing` maps a run's hash to its number of missing units, `rows` to its row's name, if not method and rotation,
    `errors` to why it failed last time, and `metrics` to its first metric.
    """
    errors, metrics = errors or {}, metrics or {}
    several = len({_spread(run) for run in runs if _gated(run)} - {""}) > 1
    cells = {}
    for run in runs:
        hash_ = run.content_hash()
        key = (rows[hash_] if rows else _row(run), _column(run, several))
        cells[key] = Cell(
            hash_,
            len(run.evaluation.units),
            missing.get(hash_, 0),
            hash_ in queued,
            error="" if hash_ in queued else errors.get(hash_, ""),  # a queued run is tried again
            first=metrics.get(hash_),
        )
    names, columns = (tuple(dict.fromkeys(key[axis] for key in cells)) for axis in (0, 1))
    return Grid(names, columns, cells)


def read_grid(
    store: Any,
    runs: Sequence[RunSpec],
    pending: Sequence[PendingRun],
    queued: frozenset[str] = frozenset(),
    rows: Mapping[str, str] | None = None,
) -> Grid:
    """Return the grid of runs with what the store has of them; `pending` are their missing units."""
    missing = {run.spec.content_hash(): len(run.units) for run in pending}
    named = {run.content_hash(): run for run in runs}
    complete = {name: run for name, run in named.items() if name not in missing}
    errors = store.failed_runs() if missing else {}
    return make_grid(runs, missing, queued, rows, errors, first_metrics(store, complete))


def with_jobs(grid: Grid, entries: Iterable[JobEntry]) -> Grid:
    """Return the grid with the runs that jobs compute now, and those that failed in them."""
    running, paused, failures = set[str](), set[str](), dict[str, str]()
    for entry in entries:
        if isinstance(entry.job, EvaluateJob):
            running |= entry.running
            paused |= entry.running if entry.phase == "paused" else set()
            # The failures of jobs that have ended come from the store.
            failures |= {run: failed.error for run, failed in entry.failures.items()} if entry.active else {}
    return replace(
        grid,
        cells={
            key: replace(
                cell, running=cell.run in running, paused=cell.run in paused, error=failures.get(cell.run, cell.error)
            )
            for key, cell in grid.cells.items()
        },
    )


def first_metrics(store: Any, runs: Mapping[str, RunSpec]) -> dict[str, FirstMetric]:
    """Return the first metric of the runs that have one stored, by hash."""
    from wina_core.store.rows import MetricFilter  # with the database's libraries

    tasks = {run: _first_task(spec) for run, spec in runs.items()}
    first_tasks = tuple({task for task in tasks.values() if task})
    if not first_tasks:
        return {}
    values: dict[str, dict[str, float]] = {}
    for row in store.metric_rows(MetricFilter(tasks=first_tasks, runs=_all_or(runs))):
        if tasks.get(row.run) == row.task:
            values.setdefault(row.run, {})[row.metric] = row.value
    first_by_run = {}
    for run, metrics in values.items():
        task = tasks[run]
        metric = runs[run].evaluation.metrics.get(task) or (
            "kl" if task in (FIDELITY, ORIGINAL) else preferred_metric(list(metrics))
        )
        if metric in metrics:
            first_by_run[run] = FirstMetric(task, metric, metrics[metric])
    return first_by_run


_MAX_NAMED_RUNS = 1000


def _all_or(runs: Collection[str]) -> tuple[str, ...]:
    """Return the runs to name in a query, none where there are too many for it."""
    return tuple(runs) if len(runs) <= _MAX_NAMED_RUNS else ()


def _first_task(run: RunSpec) -> str:
    names = run.evaluation.task_names
    return next((unit for unit in (*names, ORIGINAL, FIDELITY) if unit in run.evaluation.units), "")


def _row(run: RunSpec) -> str:
    selection = "" if run.method.name == DENSE.name else WORDS[run.method.selection]
    return ", ".join(filter(None, (Configuration(rotation=run.rotation, method=run.method).label, selection)))


def _gated(run: RunSpec) -> bool:
    return run.method.name != DENSE.name


def _column(run: RunSpec, several_allocators: bool) -> str:
    if not _gated(run):
        return DENSE_COLUMN
    if isinstance(run.plan, SparsityPlan):
        return f"{PLAN_COLUMN}\n{100 * run.plan.budget:.1f} %"
    target, spread = f"{100 * run.plan.sparsity:.4g} %", _spread(run)
    return f"{spread}\n{target}" if several_allocators and spread != "uniform" else target


def _spread(run: RunSpec) -> str:
    """Return the allocator's label; empty for a plan."""
    return "" if isinstance(run.plan, SparsityPlan) else run.plan.provenance
