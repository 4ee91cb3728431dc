"""Runs side by side: each against the reference on every common task, with significance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from wina_app.pages.results.plots.layers import MOST_RUNS
from wina_app.pages.results.run_names import name_runs
from wina_app.pages.results.spec_differences import spec_differences
from wina_app.shared.measured_sparsity import (
    COUNT_NAMES,
    RunSparsity,
    sparsity_name,
    sparsity_parts,
    stored_runs,
    with_means,
)
from wina_app.style.number_format import listed
from wina_app.style.translation import tr
from wina_app.widgets.table_model import Column, TableEntry
from wina_core.errors import WinaError
from wina_core.results.columns import WARNING
from wina_core.results.measured import DEFAULT_COUNT, Count, measured_sparsity
from wina_core.results.texts import UNKNOWN, count_text, number

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.comparison.compare_pairs import PairResult
    from wina_core.comparison.compare_tasks import Comparison
    from wina_core.store import MetricRow, Store

LETTERS = "ABCDEFGH"
"""Names of the runs in the headings of columns."""


@dataclass(frozen=True)
class TaskComparison:
    """Each run but the reference against the reference, on one task."""

    unit: str
    task: str
    metric: str
    found: "tuple[Comparison | None, ...]"
    """First is the run, second the reference; None for a run that lacks the task."""
    p: tuple[float | None, ...]
    """Corrected for the number of runs that have the task."""
    averaged: tuple[tuple[str, ...], ...]
    """Tasks of each run's mean; empty for a task."""

    @property
    def reference(self) -> float:
        """The reference's value."""
        return next(each for each in self.found if each is not None).second


@dataclass(frozen=True)
class RunComparison:
    """Two or more runs, the reference first."""

    runs: tuple[str, ...]
    names: tuple[str, ...]
    titles: tuple[str, ...]
    """The names without sparsities, which may be equal."""
    sparsities: tuple[RunSparsity, ...]
    flags: tuple[str, ...]
    """Distance of each run's measured sparsity from the reference's; "" within tolerance and beside a dense run."""
    count: Count
    """Measured sparsity that is compared."""
    tasks: tuple[TaskComparison, ...]
    differences: tuple[tuple[str, tuple[str, ...]], ...]
    """(setting, its value in each run) of what is not the same in all specs."""
    remarks: tuple[str, ...]
    """Sentences on pairs that could not be compared, or not pair by pair."""


def compare(store: "Store", rows: "Sequence[MetricRow]", count: Count = DEFAULT_COUNT) -> RunComparison:
    """Compare runs, each given by one of its rows, with the first, on the store's thread.

    Documents are paired where their samples are stored. Metrics and weights of the mean are those of the last launched
    study that has all of the runs. Raises WinaError where no run can be compared with the first.
    """
    from wina_core.comparison.compare_pairs import compare_pairs
    from wina_core.comparison.study_runs import pair_flag, shared_study

    rows, left_out = rows[:MOST_RUNS], len(rows[MOST_RUNS:])
    runs = stored_runs(store, rows)
    rows = with_means(rows, runs)
    study = shared_study(store, *(row.run for row in rows))
    pairs = [(row.run, rows[0].run) for row in rows[1:]]
    columns = compare_pairs(store, pairs, study, allow_unpaired=True)
    remarks = [column.refusal for column in columns if column.refusal]
    if len(remarks) == len(columns):
        raise WinaError(remarks[0])
    if left_out:
        remarks.insert(0, tr("Only the first {most} of the selected runs are compared.", most=MOST_RUNS))
    found = [column.found for column in columns]
    if any(not is_paired(each) for column in found for each in column.tasks):
        remarks.append(
            tr(
                "Some comparisons are not paired, since no samples are stored: run the study again with "
                '"Log samples of every document" for narrower intervals.'
            )
        )
    if len({column.averaged for column in found if column.mean}) > 1:
        remarks.append(tr("Each mean is over the tasks that the run shares with A; its tooltip lists them."))
    specs = [store.run_spec(row.run) for row in rows]
    dumps = [spec.model_dump(mode="json") if spec is not None else {} for spec in specs]
    return RunComparison(
        runs=tuple(row.run for row in rows),
        names=name_runs(rows, count),
        titles=name_runs(rows, with_sparsity=False, unique=False),
        sparsities=tuple(RunSparsity(row.target_sparsity, row.gated_sparsity, row.net_sparsity) for row in rows),
        flags=tuple(pair_flag(run, runs[0], count) if run and runs[0] else "" for run in runs),
        count=count,
        tasks=_tasks(columns),
        differences=spec_differences(dumps),
        remarks=tuple(remarks),
    )


def _tasks(columns: "Sequence[PairResult]") -> tuple[TaskComparison, ...]:
    found = [{each.key: each for each in column.found.lines} for column in columns]
    keys = dict.fromkeys(key for lines in found for key in lines if key[0])
    means = dict.fromkeys(key for lines in found for key in lines if not key[0])
    averaged = tuple(column.found.averaged for column in columns)
    return tuple(
        TaskComparison(
            *key,
            tuple(lines.get(key) for lines in found),
            tuple(column.p.get(key) for column in columns),
            averaged if key in means else tuple(() for _ in columns),
        )
        for key in (*keys, *means)
    )


def is_paired(row: "Comparison") -> bool:
    """Return whether the same documents' answers were compared one by one."""
    from wina_core.comparison.compare_tasks import PROPAGATED, UNPAIRED

    return row.test not in (UNPAIRED, PROPAGATED)


def heading(comparison: RunComparison) -> str:
    """Return what the numbers are, in one sentence."""
    others = len(comparison.names) - 1
    if others == 1:
        return tr("B − A, with 95 % interval and two-sided p")
    return tr(
        "Each run − A, with 95 % interval and two-sided p, corrected by Holm for the {count} comparisons of a task",
        count=others,
    )


def sparsity_texts(comparison: RunComparison) -> tuple[str, ...]:
    """Return measured and target sparsity of each run; nothing is dropped in a dense one."""
    return tuple(
        f"{COUNT_NAMES[comparison.count]} {sparsity_name(each, comparison.count)}"
        if measured_sparsity(each, comparison.count) is not None
        else sparsity_name(each, comparison.count)
        if each.target_sparsity > 0
        else tr("nothing dropped")
        for each in comparison.sparsities
    )


def sparsity_tips(comparison: RunComparison) -> tuple[str, ...]:
    """Return everything known of each run's sparsity, by how far it misses its target included."""
    return tuple(", ".join(sparsity_parts(each, comparison.count)) for each in comparison.sparsities)


def flag_texts(comparison: RunComparison) -> tuple[str, ...]:
    """Return a warning for each run that is not as sparse as the reference, "" for the others."""
    return tuple(
        tr("{warning} {difference} than A", warning=WARNING, difference=flag) if flag else ""
        for flag in comparison.flags
    )


# ---- the table -------------------------------------------------------------------------------------------------


class TaskEntry(TableEntry):
    """One line of the table: a task."""

    def __init__(self, task: TaskComparison, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        super().__init__((task.unit, task.task, task.metric), task)


def columns_of(comparison: RunComparison) -> tuple[Column, ...]:
    """Return the table's columns: the reference's value; each other run's value, difference, interval, p and test."""
    fixed = (
        Column("task", tr("task"), lambda row: row.task, lambda row: row.task, width=16),
        Column("metric", tr("metric"), lambda row: row.metric, lambda row: row.metric, width=11),
        Column("n", "n", _documents, lambda row: count_text(_documents(row)), numeric=True, width=7),
        Column("A", "A", lambda row: row.reference, lambda row: _short(row.reference), numeric=True, width=8),
    )
    return (*fixed, *(column for at in range(len(comparison.names) - 1) for column in _columns_of_run(at)))


def _columns_of_run(at: int) -> tuple[Column, ...]:
    letter = LETTERS[at + 1]

    def column(
        key: str,
        title: str,
        value: Callable[..., Any],
        text: Callable[..., str],
        width: int,
        explanation: str,
        tip: Callable[..., str] = _test,
    ) -> Column:
        return Column(
            f"{key} {letter}",
            title,
            partial(_of, at, value, None),
            partial(_of, at, text, UNKNOWN),
            numeric=True,
            width=width,
            explanation=explanation,
            tip=partial(_tip, at, tip),
        )

    interval = tr("95 % confidence interval of the difference; the tooltip of a cell names its method")
    effect = f"{letter} \N{MINUS SIGN} A"
    return (
        column("value", letter, lambda each: each.first, lambda each: _short(each.first), 8, ""),
        column(
            "effect",
            effect,
            lambda each: each.effect,
            lambda each: _signed(each.effect),
            9,
            tr("The difference, in the metric's own unit"),
        ),
        column(
            "low", tr("95 % from"), lambda each: each.low, lambda each: _signed(each.low, 3), 9, interval, _interval
        ),
        column("high", tr("to"), lambda each: each.high, lambda each: _signed(each.high, 3), 9, interval, _interval),
        Column(
            f"p {letter}",
            "p",
            lambda row: row.p[at],
            lambda row: UNKNOWN if row.p[at] is None else p_text(row.p[at]),
            numeric=True,
            width=7,
            explanation=tr(
                "Two-sided: how often chance alone would make a difference as large; a cell's tooltip names the test"
            ),
            tip=partial(_tip, at, _test),
        ),
        Column(
            f"test {letter}",
            tr("test"),
            partial(_of, at, lambda each: each.test, None),
            partial(_of, at, lambda each: each.test, UNKNOWN),
            width=14,
            tip=partial(_tip, at, _test),
        ),
    )


def _of(at: int, read: "Callable[[Comparison], Any]", missing: Any, row: TaskComparison) -> Any:
    found = row.found[at]
    return missing if found is None else read(found)


def _documents(row: TaskComparison) -> int | None:
    return next(each for each in row.found if each is not None).n


def _tip(at: int, read: "Callable[[Comparison], str]", row: TaskComparison) -> str:
    """Return a cell's tooltip, with the tasks where it is of a mean."""
    found, averaged = row.found[at], row.averaged[at]
    if found is None:
        return ""
    over = [tr("mean of {tasks}", tasks=listed(averaged))] if averaged else []
    return "; ".join((read(found), *over))


def _test(each: "Comparison") -> str:
    """Return the test that was really used, with its p."""
    parts = [tr("{test}, p {p} before any correction", test=each.test, p=p_text(each.p))]
    if each.first_only is not None:
        parts.append(
            tr(
                "{first} documents right in this run alone, {second} in A alone",
                first=count_text(each.first_only),
                second=count_text(each.second_only),
            )
        )
    return "; ".join(parts)


def _interval(each: "Comparison") -> str:
    """Return the test and what its interval is made of."""
    from wina_core.comparison.compare_tasks import INTERVALS

    return tr("{test}, 95 % interval: {interval}", test=each.test, interval=INTERVALS[each.test])


def p_text(p: float) -> str:
    """Format a p with three decimals, or as an upper bound."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _short(value: float) -> str:
    """Format four significant digits: intervals are wider than further ones."""
    return number(float(f"{value:.4g}"))


def _signed(value: float, digits: int = 4) -> str:
    text = number(float(f"{value:.{digits}g}"))
    return f"+{text}" if value > 0 else text


def file_rows(comparison: RunComparison) -> tuple[list[str], list[list[object]]]:
    """Return titles, which name each run, and rows for a file."""
    columns = columns_of(comparison)
    names = dict(zip(LETTERS, comparison.names, strict=False))

    def title(column: Column) -> str:
        what, _, letter = column.key.partition(" ")
        return f"{what}: {names[letter]}" if letter else names.get(what, what)

    return [title(column) for column in columns], [
        [column.value(row) for column in columns] for row in comparison.tasks
    ]


def entries(comparison: RunComparison, columns: tuple[Column, ...]) -> list[TaskEntry]:
    """Return one entry for each task."""
    return [TaskEntry(task, columns) for task in comparison.tasks]
