"""Controller of the table of the Results page: filter, study, columns, order, export."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QObject, Signal

from wina_app.pages.results.columns import ColumnChoice, common_text
from wina_app.pages.results.loader import ResultsReading
from wina_app.pages.results.plots.controller import PlotsView, ResultsPlotsController
from wina_app.pages.results.run_selection import RunSelection
from wina_app.pages.results.study_filter import Scope, scope_of
from wina_app.pages.results.table import ResultsTable
from wina_app.pages.results.tags_controller import AnnotationsController
from wina_app.services.store_thread import StoreThread
from wina_app.style.translation import tr
from wina_core.specs import RunSpec
from wina_core.specs.studies import StudySpec


class ResultsView(Protocol):
    """Interface of the page to its controller."""

    def show_count(self, shown: int, stored: int) -> None:
        """Say how many rows there are; none stored is the empty state."""

    def show_scope(self, title: str) -> None:
        """Say to which study the page is narrowed; empty for none."""

    def show_filter_error(self, text: str) -> None:
        """Show an error of the filter; empty for none."""

    def show_columns(self, keys: Sequence[str], common: str) -> None:
        """Show these columns in this order, and say what all rows have in common, where that is hidden."""

    def copy_text(self, text: str) -> None:
        """Put a text on the clipboard."""

    def show_spec(self, spec: RunSpec) -> None:
        """Show how a number was computed."""

    def show_error(self, text: str) -> None:
        """Show an error inline."""

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
        self._view.show_count(self.table.count, self._reading.everything)
        self.columns.offer(self.table.columns)
        self._show_columns()

    # ---- rows ----------------------------------------------------------------------------------------------------

    def set_filter(self, text: str) -> None:
        """Show only rows that match the line; a line that cannot be read leaves the table as it is."""
        self._reading.set_filter(text)

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
        chosen = self.columns.shown()
        if not self._differing:
            self._view.show_columns(chosen, "")
            return
        common = self.table.common
        self._view.show_columns(self.columns.shown_without(common), common_text(common, self.table.columns, chosen))

    def group_by(self, key: str) -> None:
        """Group the rows by a column's text; empty for no groups."""
        self.table.group_by(key)

    # ---- selected rows -------------------------------------------------------------------------------------------

    def select_rows(self, rows: Sequence[int]) -> None:
        """Highlight and compare the runs of the selected lines of the table."""
        self.selection.select(self.runs_of(rows))

    def runs_of(self, rows: Sequence[int]) -> list[str]:
        """Return the runs of these lines of the table, each once."""
        return list(dict.fromkeys(run for row in rows if (run := self.table.run_at(row)) is not None))

    def rows_of(self, runs: Collection[str]) -> list[int]:
        """Return the lines of the table that belong to these runs."""
        return self.table.lines_of_runs(runs)

    def explain(self, row: int) -> None:
        """Show the spec of the run in this line."""
        run = self.table.run_at(row)
        if run is not None:
            self._store.ask(lambda store: store.run_spec(run), self._view.show_spec, self._view.show_error)

    def export(self, path: Path) -> None:
        """Write what is shown, in its order and columns; the suffix names the format."""
        shown = self.table.as_shown(self._keys())

        def done(count: int) -> None:
            self._view.show_notice(tr("Saved {rows} in {path}.", rows=tr("{n} rows", "{n} row", count), path=path))

        self._store.ask(lambda _store: shown.write(path), done, self._view.show_error)

    def copy(self, rows: Sequence[int], suffix: str = "") -> None:
        """Put these lines of the table on the clipboard, in the format of files with this suffix, or with none as they
        read, with tabs between."""
        shown, lines = self.table.as_shown(self._keys()), tuple(rows)

        def text(_store: object) -> str:
            return shown.copy(lines, suffix) if suffix else shown.text(lines)

        self._store.ask(text, self._view.copy_text, self._view.show_error)

    def _keys(self) -> list[str]:
        return self.columns.shown_without(self.table.common if self._differing else ())
