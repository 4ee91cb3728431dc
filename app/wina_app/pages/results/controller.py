"""Controller of the table of the Results page: filter, study, columns, order, export."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QObject, Signal

from wina_app.pages.results.clipboard import TableSnapshot
from wina_app.pages.results.columns import ColumnChoice, common_text
from wina_app.pages.results.loader import Form, ResultsReading
from wina_app.pages.results.plots.controller import ResultsPlotsController
from wina_app.pages.results.plots.view import PlotsView
from wina_app.pages.results.run_selection import RunSelection
from wina_app.pages.results.study_filter import Scope, scope_of
from wina_app.pages.results.table import ResultsTable
from wina_app.pages.results.tags_controller import AnnotationsController
from wina_app.services.store_thread import StoreThread
from wina_app.style.translation import tr
from wina_core.analysis.results.publication import Style
from wina_core.analysis.results.runs import RunTable, is_measure
from wina_core.specs import DENSE, RunSpec
from wina_core.specs.studies import StudySpec


class ResultsView(Protocol):
    """Interface of the page to its controller."""

    def show_count(self, form: Form, shown: int, stored: int) -> None:
        """Say how many runs or metrics there are; none stored is the empty state."""

    def show_scope(self, title: str) -> None:
        """Say to which study the page is narrowed; empty for none."""

    def show_filter_error(self, text: str) -> None:
        """Show an error of the filter; empty for none."""

    def show_columns(self, keys: Sequence[str], pinned: Collection[str], common: str) -> None:
        """Show these columns in this order, some of them pinned, and say what all rows have in common, where that is
        hidden."""

    def copy_text(self, text: str) -> None:
        """Put a text on the clipboard."""

    def show_spec(self, spec: RunSpec) -> None:
        """Show how a number was computed."""

    def show_error(self, text: str) -> None:
        """Show an error inline."""

    def show_saved(self, path: Path, text: str = "") -> None:
        """Report a saved file."""

    def show_notice(self, text: str) -> None:
        """Show a remark inline."""


class ResultsController(QObject):
    """Controller between the store and the page; the table's model is shared with the view."""

    listed = Signal()
    """The store was read, and its rows are in the table; or it could not be."""

    def __init__(self, store: StoreThread, view: ResultsView, plots: PlotsView, columns: ColumnChoice) -> None:
        super().__init__()
        self.table = ResultsTable()
        self.columns = columns
        self.selection = RunSelection()
        """Shared by the table and the plots."""
        self._store, self._view = store, view
        self._differing = False
        self._reading = ResultsReading(store, self.table, view)
        self.annotations = AnnotationsController(store, self.table, view, self._reading.refresh)
        self.plots = ResultsPlotsController(store, self.table, self.selection, plots)
        for part in (self._reading, self.annotations, self.plots):
            part.setParent(self)
        self._reading.listed.connect(self.listed)
        self._reading.scope_shown.connect(self._on_scope)
        self.table.content_changed.connect(self._on_content)
        columns.changed.connect(self._show_columns)

    def start(self) -> None:
        """Read the store, now that the view shows the table."""
        self._on_content()
        self._reading.refresh()

    def refresh(self) -> None:
        """Read the store again."""
        self._reading.refresh()

    def _on_scope(self, scope: Scope | None) -> None:
        self.plots.set_scope(scope)
        self.selection.select(())

    def _on_content(self) -> None:
        form: Form = "runs" if self.table.of_runs else "metrics"
        stored = self._reading.stored
        self._view.show_count(form, self.table.count, stored.runs if self.table.of_runs else stored.metrics)
        self.columns.offer(self.table.columns)
        self._show_columns()

    # ---- rows ----------------------------------------------------------------------------------------------------

    def set_filter(self, text: str) -> None:
        """Show only rows that match the line; a line that cannot be read leaves the table as it is."""
        self._reading.set_filter(text)

    def set_form(self, form: Form) -> None:
        """List runs, with a column for each metric, or metrics."""
        self._reading.set_form(form)

    def show_study(self, study: StudySpec | None) -> None:
        """Show the runs of a study alone, whose roles are mapped, beside what the paper published; None for all."""
        if study is None:
            self._narrow(None)
        else:
            self._store.ask(lambda _store: scope_of(study), self._narrow, self._view.show_error)

    def _narrow(self, scope: Scope | None) -> None:
        self._view.show_scope(scope.title if scope else "")
        self._reading.narrow(scope)

    # ---- columns -------------------------------------------------------------------------------------------------

    def show_differing(self, on: bool) -> None:
        """Hide the columns that are the same in all rows, and name their values; or show all."""
        self._differing = on
        self._show_columns()

    def _show_columns(self) -> None:
        common = common_text(self.table.common, self.table.columns, self.columns.shown()) if self._differing else ""
        self._view.show_columns(self._keys(), self.columns.pinned, common)

    def _keys(self) -> list[str]:
        """Return the keys of the columns that are shown, in their order."""
        cells = self.table.cells
        keys = self.columns.shown_without(self.table.common if self._differing else ())
        if not isinstance(cells, RunTable):
            return keys
        return [key for key in keys if not is_measure(key) or key in cells.there]

    def group_by(self, key: str) -> None:
        """Group the rows by a column's text; empty for no groups."""
        self.table.group_by(key)

    # ---- selected rows -------------------------------------------------------------------------------------------

    def select_rows(self, rows: Sequence[int]) -> None:
        """Highlight and compare the runs of the selected lines of the table."""
        self.selection.select(self.runs_of(rows))

    def select_measure(self, row: int, column: int) -> None:
        """Compare by the metric of this cell of the table first, if it has one."""
        measure = self.table.measure_at(row, column)
        if measure is not None:
            self.plots.select_measure(*measure)

    def runs_of(self, rows: Sequence[int]) -> list[str]:
        """Return the runs of these lines of the table, each once."""
        return list(dict.fromkeys(run for row in rows if (run := self.table.run_at(row)) is not None))

    def export_problem(self) -> str:
        """Return why the selection is no sparse model; empty for one run that is gated."""
        runs, cells = self.selection.runs, self.table.cells
        if len(runs) != 1:
            return tr("Select the rows of one run")
        rows = cells.rows_of_runs(runs)
        dense = len(rows) > 0 and cells["method"].text(rows[0]) == DENSE.label
        return tr("The dense model drops nothing; select a run with a method") if dense else ""

    def rows_of(self, runs: Collection[str]) -> list[int]:
        """Return the lines of the table that belong to these runs."""
        return self.table.lines_of_runs(runs)

    def explain(self, row: int) -> None:
        """Show the spec of the run in this line."""
        run = self.table.run_at(row)
        if run is not None:
            self._store.ask(lambda store: store.run_spec(run), self._view.show_spec, self._view.show_error)

    def snapshot(self) -> TableSnapshot:
        """Return what is shown, in its order and columns."""
        return self.table.as_shown(self._keys())

    def export(self, path: Path, style: Style | None = None, table: TableSnapshot | None = None) -> None:
        """Write a table, by default what is shown; the suffix names the format. LaTeX has the usual caption by
        default."""
        shown = self.snapshot() if table is None else table
        style = shown.usual_style if style is None else style

        def done(count: int) -> None:
            rows = tr("{n} rows", "{n} row", count)
            self._view.show_saved(path, tr("{rows} in {file}", rows=rows, file=path.name))

        self._store.ask(lambda _store: shown.write(path, style), done, self._view.show_error)

    def copy(self, rows: Sequence[int], suffix: str = "") -> None:
        """Put these lines of the table on the clipboard, in the format of files with this suffix, or with none as they
        read, with tabs between."""
        shown, lines = self.table.as_shown(self._keys()), tuple(rows)

        def text(_store: object) -> str:
            return shown.copy(lines, suffix) if suffix else shown.text(lines)

        self._store.ask(text, self._view.copy_text, self._view.show_error)
