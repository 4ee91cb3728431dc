"""Panel of the selected runs side by side: tasks x runs with differences, and the differences of their specs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSplitter, QWidget

from wina_app.pages.results.comparison import (
    LETTERS,
    DifferenceEntry,
    RunComparison,
    TaskComparison,
    difference_columns,
    heading,
)
from wina_app.style.number_format import listed
from wina_app.style.theme import GRID
from wina_app.widgets.boxes import STRETCH, vbox
from wina_app.widgets.clear_layout import clear_layout
from wina_app.widgets.combo_box import ComboBox
from wina_app.widgets.controls import ElidedLabel, beside, push_button, text_label
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.table_model import Column, RowTable, TableEntry
from wina_app.widgets.table_view import RowTableView
from wina_core.files.tables import write_table
from wina_core.records.texts import UNKNOWN, count_text, p_text

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.analysis.comparison.compare_tasks import Comparison


class ComparisonEntry(TableEntry):
    """One line of the table: a task."""

    def __init__(self, task: TaskComparison, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        super().__init__((task.unit, task.task, task.metric), task)


def columns_of(comparison: RunComparison, *, of_file: bool = False) -> tuple[Column, ...]:
    """Return the table's columns: the reference's value; each other run's value, difference, interval and p; number
    of documents and tests. In a file an interval has two columns."""
    runs = range(len(comparison.names) - 1)
    columns = (
        Column("task", "task", lambda row: row.task, lambda row: row.task, width=16),
        Column("metric", "metric", lambda row: row.metric, lambda row: row.metric, width=11),
        Column("A", "A", lambda row: row.reference, lambda row: row.text(row.reference), numeric=True, width=8),
        *(column for at in runs for column in _columns_of_run(at, of_file)),
        Column("n", "n", _documents, lambda row: count_text(_documents(row)), numeric=True, width=7),
        *map(_test_column, runs),
    )
    return tuple(replace(column, width=_widest(column, comparison.tasks)) for column in columns)


def _widest(column: Column, tasks: Sequence[TaskComparison]) -> int:
    """Return the most letters of a cell, at most the column's usual width for words."""
    texts = [column.text(task) for task in tasks]
    # A minus sign is wider than a digit.
    letters = max((len(text) + text.count("\N{MINUS SIGN}") for text in texts), default=0)
    return letters if column.numeric else min(letters, column.width)


def _columns_of_run(at: int, of_file: bool) -> tuple[Column, ...]:
    letter = LETTERS[at + 1]
    explanation = "95 % confidence interval of the difference; the tooltip of a cell names its method"
    interval: tuple[Column, ...] = (
        _column(at, "interval", "95 % interval", "low", lambda row, _: row.interval(at), 18, explanation, _interval),
    )
    if of_file:
        interval = (
            _column(at, "low", "95 % from", "low", TaskComparison.signed, 9, explanation, _interval),
            _column(at, "high", "to", "high", TaskComparison.signed, 9, explanation, _interval),
        )
    difference = "The difference, in the metric's own unit"
    return (
        _column(at, "value", letter, "first", TaskComparison.text, 8),
        _column(at, "effect", f"{letter} \N{MINUS SIGN} A", "effect", TaskComparison.signed, 9, difference),
        *interval,
        Column(
            f"p {letter}",
            "p",
            lambda row: row.p[at],
            lambda row: _p(row, at),
            numeric=True,
            width=7,
            explanation=(
                "Two-sided: how often chance alone would make a difference as large; min is the smallest that so few "
                "documents allow; a cell's tooltip names the test"
            ),
            tip=partial(_tip, at, _test),
        ),
    )


def _test_column(at: int) -> Column:
    title = "test" if at == 0 else f"test of {LETTERS[at + 1]}"
    return _column(at, "test", title, "test", lambda _, test: test, 14, numeric=False)


def _column(
    at: int,
    key: str,
    title: str,
    attribute: str,
    text: Callable[[TaskComparison, Any], str],
    width: int,
    explanation: str = "",
    tip: "Callable[[Comparison], str] | None" = None,
    *,
    numeric: bool = True,
) -> Column:
    """Return the column of an attribute of a run's comparison with the reference."""

    def cell_text(row: TaskComparison) -> str:
        comparison = row.comparisons[at]
        return UNKNOWN if comparison is None else text(row, getattr(comparison, attribute))

    return Column(
        f"{key} {LETTERS[at + 1]}",
        title,
        lambda row: getattr(row.comparisons[at], attribute, None),  # None, too, for a run that lacks the task
        cell_text,
        numeric=numeric,
        width=width,
        explanation=explanation,
        tip=partial(_tip, at, tip or _test),
    )


def _p(row: TaskComparison, at: int) -> str:
    p, comparison = row.p[at], row.comparisons[at]
    return UNKNOWN if p is None else p_text(p, comparison.smallest_p if comparison else None)


def _documents(row: TaskComparison) -> int | None:
    return next(comparison for comparison in row.comparisons if comparison is not None).n


def _tip(at: int, read: "Callable[[Comparison], str]", row: TaskComparison) -> str:
    """Return a cell's tooltip, with the tasks where it is of a mean."""
    comparison, averaged = row.comparisons[at], row.averaged[at]
    if comparison is None:
        return ""
    over = [f"mean of {listed(averaged)}"] if averaged else []
    return "; ".join((read(comparison), *over))


def _test(comparison: "Comparison") -> str:
    """Return the test that was used, with its p."""
    if math.isnan(comparison.p):
        return "Not tested: it needs two documents, or standard errors of six documents or rows"
    sentences = [f"{comparison.test}, p {p_text(comparison.p)} before any correction"]
    if comparison.first_only is not None:
        sentences.append(
            f"{count_text(comparison.first_only)} documents right in this run alone, "
            f"{count_text(comparison.second_only)} in A alone"
        )
    if comparison.smallest_p is not None and comparison.smallest_p >= 0.001:
        sentences.append(f"the documents that differ allow no p below {p_text(comparison.smallest_p)}")
    return "; ".join(sentences)


def _interval(comparison: "Comparison") -> str:
    """Return the test and the method of its interval."""
    from wina_core.analysis.comparison.compare_tasks import INTERVALS

    if math.isinf(comparison.low) or math.isinf(comparison.high):
        return f"{comparison.test}: too few documents differ for a 95 % interval, which needs 6"
    return f"{comparison.test}, 95 % interval: {INTERVALS[comparison.test]}"


def file_rows(comparison: RunComparison) -> tuple[list[str], list[list[object]]]:
    """Return titles, which name each run, and rows for a file."""
    columns = columns_of(comparison, of_file=True)
    names = dict(zip(LETTERS, comparison.names, strict=False))

    def title(column: Column) -> str:
        name, _, letter = column.key.partition(" ")
        return f"{name}: {names[letter]}" if letter else names.get(name, name)

    return [title(column) for column in columns], [
        [_finite(column.value(row)) for column in columns] for row in comparison.tasks
    ]


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


_SHARES = (75 * GRID, 25 * GRID)
"""Sizes of the tables of differences and of settings, in proportion."""


class ResultsComparison(QWidget):
    """Names of the runs over two tables."""

    reference_chosen = Signal(str)
    export_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.comparison: RunComparison | None = None
        self.reference = ComboBox("Reference run")
        self.reference.activated.connect(lambda: self.reference_chosen.emit(self.reference.currentData()))
        self.heading = ElidedLabel("muted")
        self.export = push_button("Export…", self.export_requested.emit, name="Export the comparison")
        self._captions = FlowLayout()
        self.remark = text_label("", "muted", wrap=True)
        self.table = RowTableView("Differences by task")
        self.specs = RowTableView("What differs in the runs' specs")
        caption = text_label("Reference", "muted")
        caption.setBuddy(self.reference)
        helps = HelpButton("p"), HelpButton("Interval")
        bar = beside(caption, self.reference, self.heading, *helps, self.export, stretch=self.heading)
        self._tables = tables = QSplitter(Qt.Orientation.Horizontal)
        tables.setChildrenCollapsible(False)
        tables.addWidget(self.table)
        tables.addWidget(self.specs)
        tables.setStretchFactor(0, 3)
        tables.setStretchFactor(1, 1)
        tables.setSizes(list(_SHARES))
        self._content = QWidget()
        vbox(self._content, bar, self._captions, (tables, 1))
        margins = (2 * GRID, GRID, 2 * GRID, GRID)
        self._column = vbox(self, self.remark, (self._content, 1), STRETCH, margins=margins)
        self.show_comparison(None, "")

    def show_comparison(self, comparison: RunComparison | None, text: str) -> None:
        """Show runs side by side; None for the text alone."""
        self.comparison = comparison
        self._content.setVisible(comparison is not None)
        self._column.setStretch(2, 0 if comparison else 1)  # a remark alone stays at the top
        remarks = " ".join(filter(None, (text, *(comparison.remarks if comparison else ()))))
        self.remark.setText(remarks)
        self.remark.setVisible(bool(remarks))
        if comparison is None:
            return
        direction = Qt.Orientation.Horizontal if len(comparison.runs) == 2 else Qt.Orientation.Vertical
        if self._tables.orientation() != direction:  # more runs need all of the width
            self._tables.setOrientation(direction)
            self._tables.setSizes(list(_SHARES))
        named = tuple(zip(LETTERS, comparison.names, strict=False))
        self.reference.fill(tuple(zip(comparison.names, comparison.runs, strict=True)), comparison.runs[0])
        self.heading.setText(heading(comparison))
        self._show_captions(comparison)
        columns = columns_of(comparison)
        tasks = RowTable(columns)
        tasks.set_entries([ComparisonEntry(task, columns) for task in comparison.tasks])
        self.table.show_table(tasks)
        settings = difference_columns(LETTERS[: len(named)])
        differences = RowTable(settings)
        differences.set_entries([DifferenceEntry(row, settings) for row in comparison.differences])
        self.specs.show_table(differences)

    def _show_captions(self, comparison: RunComparison) -> None:
        """Name the runs, with a warning where their sparsities differ from the reference's."""
        clear_layout(self._captions)
        texts = comparison.names, comparison.flags, comparison.sparsity_tips
        for letter, name, flag, tip in zip(LETTERS, *texts, strict=False):
            caption = text_label(f"{letter}:  {name}{f'  {flag}' if flag else ''}", "warning" if flag else "")
            caption.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            caption.setContentsMargins(0, 0, 2 * GRID, 0)
            caption.setToolTip(plain_tip(tip))
            self._captions.addWidget(caption)

    def write(self, path: Path) -> None:
        """Write the differences; the suffix names the format. Raises WinaError."""
        if self.comparison is not None:
            write_table(*file_rows(self.comparison), path)
