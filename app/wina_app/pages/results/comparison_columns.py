"""Columns of the runs side by side, on the screen and in files."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from wina_app.pages.results.comparison import LETTERS, RunComparison, TaskComparison
from wina_app.style.number_format import listed
from wina_app.style.translation import tr
from wina_app.widgets.table_model import Column, TableEntry
from wina_core.records.texts import UNKNOWN, count_text, p_text

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.analysis.comparison.compare_tasks import Comparison


class TaskEntry(TableEntry):
    """One line of the table: a task."""

    def __init__(self, task: TaskComparison, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        super().__init__((task.unit, task.task, task.metric), task)


def columns_of(comparison: RunComparison, *, of_file: bool = False) -> tuple[Column, ...]:
    """Return the table's columns: the reference's value; each other run's value, difference, interval and p; number
    of documents and tests. In a file an interval has two columns."""
    others = range(len(comparison.names) - 1)
    columns = (
        Column("task", tr("task"), lambda row: row.task, lambda row: row.task, width=16),
        Column("metric", tr("metric"), lambda row: row.metric, lambda row: row.metric, width=11),
        Column("A", "A", lambda row: row.reference, lambda row: row.text(row.reference), numeric=True, width=8),
        *(column for at in others for column in _columns_of_run(at, of_file)),
        Column("n", "n", _documents, lambda row: count_text(_documents(row)), numeric=True, width=7),
        *map(_test_column, others),
    )
    return tuple(replace(column, width=_widest(column, comparison.tasks)) for column in columns)


def _widest(column: Column, tasks: Sequence[TaskComparison]) -> int:
    """Return the most letters of a cell, at most the column's usual width for words."""
    texts = [column.text(task) for task in tasks]
    found = max((len(text) + text.count("\N{MINUS SIGN}") for text in texts), default=0)  # which is wider than a digit
    return found if column.numeric else min(found, column.width)


def _columns_of_run(at: int, of_file: bool) -> tuple[Column, ...]:
    letter = LETTERS[at + 1]

    def column(
        key: str,
        title: str,
        value: Callable[..., Any],
        text: Callable[[TaskComparison, Any], str],
        width: int,
        explanation: str = "",
        tip: Callable[..., str] = _test,
    ) -> Column:
        def shown(row: TaskComparison) -> str:
            found = row.found[at]
            return UNKNOWN if found is None else text(row, value(found))

        return Column(
            f"{key} {letter}",
            title,
            partial(_of, at, value, None),
            shown,
            numeric=True,
            width=width,
            explanation=explanation,
            tip=partial(_tip, at, tip),
        )

    explanation = tr("95 % confidence interval of the difference; the tooltip of a cell names its method")
    interval = (
        column("low", tr("95 % from"), lambda each: each.low, TaskComparison.signed, 9, explanation, _interval),
        column("high", tr("to"), lambda each: each.high, TaskComparison.signed, 9, explanation, _interval),
    )
    whole = Column(
        f"interval {letter}",
        tr("95 % interval"),
        partial(_of, at, lambda each: each.low, None),
        lambda row: row.interval(at),
        numeric=True,
        width=18,
        explanation=explanation,
        tip=partial(_tip, at, _interval),
    )
    return (
        column("value", letter, lambda each: each.first, TaskComparison.text, 8),
        column(
            "effect",
            f"{letter} \N{MINUS SIGN} A",
            lambda each: each.effect,
            TaskComparison.signed,
            9,
            tr("The difference, in the metric's own unit"),
        ),
        *(interval if of_file else (whole,)),
        Column(
            f"p {letter}",
            "p",
            lambda row: row.p[at],
            lambda row: _p(row, at),
            numeric=True,
            width=7,
            explanation=tr(
                "Two-sided: how often chance alone would make a difference as large; min is the smallest that so few "
                "documents allow; a cell's tooltip names the test"
            ),
            tip=partial(_tip, at, _test),
        ),
    )


def _test_column(at: int) -> Column:
    letter = LETTERS[at + 1]
    title = tr("test") if at == 0 else tr("test of {letter}", letter=letter)
    read, tip = (lambda each: each.test), partial(_tip, at, _test)
    return Column(
        f"test {letter}", title, partial(_of, at, read, None), partial(_of, at, read, UNKNOWN), width=14, tip=tip
    )


def _p(row: TaskComparison, at: int) -> str:
    p, found = row.p[at], row.found[at]
    return UNKNOWN if p is None else p_text(p, found.smallest_p if found else None)


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
    if math.isnan(each.p):
        return tr("Not tested: it needs two documents, or standard errors of six documents or rows")
    parts = [tr("{test}, p {p} before any correction", test=each.test, p=p_text(each.p))]
    if each.first_only is not None:
        parts.append(
            tr(
                "{first} documents right in this run alone, {second} in A alone",
                first=count_text(each.first_only),
                second=count_text(each.second_only),
            )
        )
    if each.smallest_p is not None and each.smallest_p >= 0.001:
        parts.append(tr("the documents that differ allow no p below {p}", p=p_text(each.smallest_p)))
    return "; ".join(parts)


def _interval(each: "Comparison") -> str:
    """Return the test and what its interval is made of."""
    from wina_core.analysis.comparison.compare_tasks import INTERVALS

    if math.isinf(each.low) or math.isinf(each.high):
        return tr("{test}: too few documents differ for a 95 % interval, which needs 6", test=each.test)
    return tr("{test}, 95 % interval: {interval}", test=each.test, interval=INTERVALS[each.test])


def file_rows(comparison: RunComparison) -> tuple[list[str], list[list[object]]]:
    """Return titles, which name each run, and rows for a file."""
    columns = columns_of(comparison, of_file=True)
    names = dict(zip(LETTERS, comparison.names, strict=False))

    def title(column: Column) -> str:
        what, _, letter = column.key.partition(" ")
        return f"{what}: {names[letter]}" if letter else names.get(what, what)

    return [title(column) for column in columns], [
        [_finite(column.value(row)) for column in columns] for row in comparison.tasks
    ]


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def entries(comparison: RunComparison, columns: tuple[Column, ...]) -> list[TaskEntry]:
    """Return one entry for each task."""
    return [TaskEntry(task, columns) for task in comparison.tasks]
