"""Controller of the Results page: it reads the stored rows of a study that pass a filter into the page's table."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from PySide6.QtCore import QObject, QTimer, Signal

from wina_app.pages.results.columns import ColumnChoice
from wina_app.pages.results.plots.controller import ResultsPlotsController
from wina_app.pages.results.runs import RunSelection, Scope, scope_of
from wina_app.pages.results.table import ResultsTable, TableSnapshot
from wina_app.pages.results.tags_controller import AnnotationsController
from wina_app.services.process import BackgroundImport
from wina_app.services.store_thread import StoreThread
from wina_app.style.number_format import plural
from wina_core.analysis.results.columns import COLUMNS, ResultColumn
from wina_core.analysis.results.filter import Terms, parse_filter, passing
from wina_core.analysis.results.publication import Style
from wina_core.analysis.results.runs import RunResults, is_measure
from wina_core.analysis.results.table import Mask, MetricResults
from wina_core.errors import WinaError
from wina_core.specs import DENSE
from wina_core.specs.studies import StudySpec
from wina_core.store.metric_frames import details_frame

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_app.pages.results.page import ResultsPage
    from wina_app.pages.results.plots.tabs import ResultsPlots
    from wina_core.store import Store

_PAUSE_MS = 1000
"""Pause between two readings of the store while results arrive: each goes through every row."""

Form = Literal["runs", "metrics"]
"""A row is a run, or one of its metrics."""


class _PassingRows(NamedTuple):
    mask: Mask
    runs: RunResults | None
    """Runs that the rows make; None where the metrics are listed themselves."""


class _Reading(NamedTuple):
    """Answer of one reading of the store."""

    cells: MetricResults
    rows: _PassingRows
    error: str
    """Reason why the filter was not applied and everything passes; empty otherwise."""
    metrics: int
    """Number of metrics of all studies."""
    runs: int


class ResultsController(QObject):
    """Controller between the store and the page; the table's model is shared with the view.

    One reading of the store runs at a time, the last one after the last change. All that goes through every row is done
    on the store's thread.
    """

    listed = Signal()
    """The store was read, and its rows are in the table; or it could not be."""

    def __init__(self, store: StoreThread, view: "ResultsPage", plots: "ResultsPlots", columns: ColumnChoice) -> None:
        super().__init__()
        self.table = ResultsTable()
        self.columns = columns
        self.selection = RunSelection()
        """Shared by the table and the plots."""
        self._store, self._view = store, view
        self._form: Form = "runs"
        self._stored: dict[Form, int] = {"runs": 0, "metrics": 0}
        """Numbers of rows of all studies."""
        self._cells = MetricResults(columns=COLUMNS)
        self._scope: Scope | None = None
        self._listed_scope: Scope | None = None
        """Scope of the rows in the table."""
        self._text = ""
        self._terms: Terms = ()
        """Terms of the last filter line that could be read."""
        self._is_reading = self._outdated = False
        self._pandas = BackgroundImport("pandas")
        self._pandas.finished.connect(self.refresh)
        self._pause = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._pause.timeout.connect(self._catch_up)
        store.changed.connect(self._on_store_changed)
        self.annotations = AnnotationsController(store, self.table, view, self.refresh)
        self.plots = ResultsPlotsController(store, self.table, self.selection, plots)
        for controller in (self.annotations, self.plots):
            controller.setParent(self)
        self.table.content_changed.connect(self._on_content)
        columns.changed.connect(self._show_columns)

    def start(self) -> None:
        self._on_content()
        self.refresh()

    def _on_content(self) -> None:
        form: Form = "runs" if self.table.of_runs else "metrics"
        self._view.show_count(form, self.table.count, self._stored[form])
        self.columns.offer(self.table.columns)
        self._show_columns()

    # ---- reading -------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        if self._pandas.is_needed():  # `refresh` is called again once it is imported
            return
        if self._is_reading:
            self._outdated = True
            return
        self._is_reading = True
        scope, terms, before, form = self._scope, self._terms, self._cells, self._form
        columns = _columns(scope)

        def read(store: "Store") -> _Reading:
            everything, details = store.metrics(), details_frame(store.run_details())
            cells = before
            if not before.is_of(everything, details, columns):
                metrics = everything[everything["run"].isin(list(scope.configurations))] if scope else everything
                cells = MetricResults(metrics.reset_index(drop=True), details, columns, everything)
            try:
                mask, error = passing(terms, cells), ""
            except WinaError as refusal:
                mask, error = np.ones(len(cells), np.bool_), str(refusal)
            runs = len(np.unique(everything["run"].array.codes))
            return _Reading(cells, _passing_rows(cells, mask, form), error, len(everything), runs)

        request = terms, form
        self._store.ask(read, lambda reading: self._on_read(scope, request, reading), self._on_refused)

    def _on_read(self, scope: Scope | None, request: tuple[Terms, Form], reading: _Reading) -> None:
        self._is_reading = False
        if scope is not self._scope:  # chosen meanwhile
            self._outdated = False
            self.refresh()
            return
        if scope is not self._listed_scope:
            self._listed_scope = scope
            self.plots.set_scope(scope)
            self.selection.select(())
        self._stored = {"runs": reading.runs, "metrics": reading.metrics}
        self._cells = reading.cells
        self.table.show(reading.cells, *reading.rows)
        # What searching and sorting need takes a second for a million rows, which are on the screen before that.
        # A failure is no reading that ended: `_on_refused` would let two overlap.
        self._store.ask(lambda _store: reading.cells.prepare(), lambda _: None, self._view.show_error)
        self.listed.emit()
        if reading.error:
            self._view.show_filter_error(reading.error)
        if request != (self._terms, self._form):  # chosen meanwhile
            self._filter()
        if not self._pause.isActive():
            self._catch_up()

    def _on_refused(self, text: str) -> None:
        self._is_reading = self._outdated = False
        self._view.show_error(text)
        self.listed.emit()

    def _on_store_changed(self) -> None:
        # The first change is read at once, all changes during the pause together at its end.
        if self._pause.isActive():
            self._outdated = True
        else:
            self._pause.start()
            self.refresh()

    def _catch_up(self) -> None:
        if self._outdated and not self._is_reading:
            self._outdated = False
            self._on_store_changed()

    # ---- rows ----------------------------------------------------------------------------------------------------

    def set_filter(self, text: str) -> None:
        """Show only rows that match the line; a line that cannot be read leaves the table as it is."""
        self._text = text
        terms = self._parse(text)
        if terms is not None and terms != self._terms:
            self._terms = terms
            self._filter()

    def set_form(self, form: Form) -> None:
        """List runs, with a column for each metric, or metrics."""
        if form != self._form:
            self._form = form
            self._filter()

    def show_study(self, study: StudySpec | None) -> None:
        """Show the runs of a study alone, whose roles are mapped, beside what the paper published; None for all."""
        if study is None:
            self._narrow(None)
        else:
            self._store.ask(lambda _store: scope_of(study), self._narrow, self._view.show_error)

    def _narrow(self, scope: Scope | None) -> None:
        self._view.show_scope(scope.title if scope else "")
        self._scope = scope
        self._terms = self._parse(self._text) or ()  # no filter if the scope lacks one of its columns
        self.refresh()

    def _parse(self, text: str) -> Terms | None:
        try:
            terms = parse_filter(text, _columns(self._scope))
        except WinaError as error:
            self._view.show_filter_error(str(error))
            return None
        self._view.show_filter_error("")
        return terms

    def _filter(self) -> None:
        if self._is_reading:  # `_on_read` filters its rows anew
            return
        terms, cells, form = self._terms, self._cells, self._form

        def show(rows: _PassingRows) -> None:
            # Else the user typed on, or the store was read: another answer follows.
            if (terms, form) == (self._terms, self._form) and cells is self._cells:
                self.table.show(cells, *rows)

        def passing_rows(_store: "Store") -> _PassingRows:
            return _passing_rows(cells, passing(terms, cells), form)

        self._store.ask(passing_rows, show, self._view.show_filter_error)

    # ---- columns -------------------------------------------------------------------------------------------------

    def _show_columns(self) -> None:
        self._view.show_columns(self._keys())

    def _keys(self) -> list[str]:
        cells = self.table.cells
        keys = self.columns.visible_keys()
        if not isinstance(cells, RunResults):
            return keys
        return [key for key in keys if not is_measure(key) or key in cells.measured_keys]

    # ---- selected rows -------------------------------------------------------------------------------------------

    def select_rows(self, rows: Sequence[int]) -> None:
        self.selection.select(self.runs_of(rows))

    def select_measure(self, row: int, column: int) -> None:
        """Compare by the metric of this cell of the table first, if it has one."""
        measure = self.table.measure_at(row, column)
        if measure is not None:
            self.plots.select_measure(*measure)

    def runs_of(self, rows: Sequence[int]) -> list[str]:
        """Return the runs of these lines, each once."""
        return list(dict.fromkeys(run for row in rows if (run := self.table.run_at(row)) is not None))

    def export_problem(self) -> str:
        """Return why the selection is no sparse model; empty for one run that is gated."""
        runs, cells = self.selection.runs, self.table.cells
        if len(runs) != 1:
            return "Select the rows of one run"
        rows = cells.rows_of_runs(runs)
        dense = len(rows) > 0 and cells["method"].text(rows[0]) == DENSE.label
        return "The dense model drops nothing; select a run with a method" if dense else ""

    def explain(self, row: int) -> None:
        """Show the spec of the run in this line."""
        run = self.table.run_at(row)
        if run is not None:
            self._store.ask(lambda store: store.run_spec(run), self._view.show_spec, self._view.show_error)

    # ---- files and clipboard -------------------------------------------------------------------------------------

    def snapshot(self) -> TableSnapshot:
        return self.table.snapshot(self._keys())

    def export(self, path: Path, style: Style | None = None, table: TableSnapshot | None = None) -> None:
        """Write a table, by default what is shown; the suffix names the format. LaTeX has the usual caption by
        default."""
        snapshot = self.snapshot() if table is None else table
        style = snapshot.usual_style if style is None else style

        def done(count: int) -> None:
            rows = plural(count, "rows", "row")
            self._view.show_saved(path, f"{rows} in {path.name}")

        # On the store's thread, so that the window does not wait for a disk.
        self._store.ask(lambda _store: snapshot.write(path, style), done, self._view.show_error)

    def copy(self, rows: Sequence[int], suffix: str = "") -> None:
        """Put these lines on the clipboard in the format of files with this suffix, or if it is empty as shown, with
        tabs between cells."""
        snapshot = self.snapshot().lines(rows)

        def text(_store: object) -> str:
            return snapshot.copy(suffix) if suffix else snapshot.text()

        self._store.ask(text, self._view.copy_text, self._view.show_error)


def _passing_rows(cells: MetricResults, mask: Mask, form: Form) -> _PassingRows:
    return _PassingRows(mask, RunResults(cells, mask) if form == "runs" else None)


def _columns(scope: Scope | None) -> tuple[ResultColumn, ...]:
    return scope.columns if scope else COLUMNS
