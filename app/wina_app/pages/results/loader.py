"""Loader of the results table: the store's rows of a study that pass a filter."""

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
from PySide6.QtCore import QObject, QTimer, Signal

from wina_app.pages.results.study_filter import Scope
from wina_app.pages.results.table import ResultsTable
from wina_app.services.process import BackgroundImport
from wina_app.services.store_thread import StoreThread
from wina_core.analysis.results.columns import COLUMNS, ResultColumn
from wina_core.analysis.results.filter import Terms, parse_filter, passing
from wina_core.analysis.results.runs import RunTable
from wina_core.analysis.results.table import Mask, MetricTable
from wina_core.errors import WinaError
from wina_core.store.metric_frames import details_frame

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import Store

_PAUSE_MS = 1000
"""Pause between two readings of the store while results arrive: each goes through every row."""


class FilterView(Protocol):
    """Interface of the page to its loader."""

    def show_filter_error(self, text: str) -> None:
        """Show an error of the filter; empty for none."""

    def show_error(self, text: str) -> None:
        """Show an error inline."""


Form = Literal["runs", "metrics"]
"""A row is a run, or one of its metrics."""


class Stored(NamedTuple):
    """Numbers of rows of all studies."""

    metrics: int = 0
    runs: int = 0


class _Listing(NamedTuple):
    """Rows that pass."""

    mask: Mask
    runs: RunTable | None
    """Runs that the rows make; None where they are listed themselves."""


class _Answer(NamedTuple):
    cells: MetricTable
    listing: _Listing
    error: str
    """Reason why everything passes, where the filter takes too long."""
    stored: Stored


class ResultsReading(QObject):
    """Reader of the store, one reading at a time, the last one after the last change. All that goes through every row
    is done on the store's thread."""

    listed = Signal()
    """The store was read, and its rows are in the table; or it could not be."""
    scope_shown = Signal(object)
    """The table is about to show the rows of another Scope, or with None of all studies."""

    def __init__(self, store: StoreThread, table: ResultsTable, view: FilterView) -> None:
        super().__init__()
        self.stored = Stored()
        self._form: Form = "runs"
        self._store, self._table, self._view = store, table, view
        self._cells = MetricTable(columns=COLUMNS)
        self._scope: Scope | None = None
        self._shown: Scope | None = None
        """Scope of the rows in the table."""
        self._text = ""
        self._terms: Terms = ()
        """The last that could be read."""
        self._asking = self._outdated = False
        self._pandas = BackgroundImport("pandas")
        self._pandas.finished.connect(self.refresh)
        self._pause = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._pause.timeout.connect(self._catch_up)
        store.changed.connect(self._store_changed)

    def refresh(self) -> None:
        """Read the store again."""
        if self._pandas.is_needed():
            return
        if self._asking:
            self._outdated = True
            return
        self._asking = True
        scope, terms, before, form = self._scope, self._terms, self._cells, self._form
        columns = _columns(scope)

        def question(store: "Store") -> _Answer:
            everything, details = store.metrics(), details_frame(store.run_details())
            cells = before
            if not before.is_of(everything, details, columns):
                chosen = everything[everything["run"].isin(list(scope.configurations))] if scope else everything
                cells = MetricTable(chosen.reset_index(drop=True), details, columns, everything)
            try:
                mask, error = passing(terms, cells), ""
            except WinaError as refusal:
                mask, error = np.ones(len(cells), np.bool_), str(refusal)
            stored = Stored(len(everything), len(np.unique(everything["run"].array.codes)))
            return _Answer(cells, _listing(cells, mask, form), error, stored)

        wanted = terms, form
        self._store.ask(question, lambda answer: self._answered(scope, wanted, answer), self._refused)

    def set_form(self, form: Form) -> None:
        """List runs or metrics."""
        if form != self._form:
            self._form = form
            self._filter()

    def narrow(self, scope: Scope | None) -> None:
        """Show the runs of one study alone; None for all."""
        self._scope = scope
        self._terms = self._read(self._text) or ()  # terms of columns that are no more are passed over
        self.refresh()

    def set_filter(self, text: str) -> None:
        """Show only rows that match the line; a line that cannot be read leaves the table as it is."""
        self._text = text
        terms = self._read(text)
        if terms is not None and terms != self._terms:
            self._terms = terms
            self._filter()

    def _read(self, text: str) -> Terms | None:
        try:
            terms = parse_filter(text, _columns(self._scope))
        except WinaError as error:
            self._view.show_filter_error(str(error))
            return None
        self._view.show_filter_error("")
        return terms

    def _filter(self) -> None:
        if self._asking:  # what is being read will be filtered anew
            return
        terms, cells, form = self._terms, self._cells, self._form

        def show(listing: _Listing) -> None:
            if (terms, form) == (self._terms, self._form) and cells is self._cells:
                self._table.show(cells, *listing)

        def question(_store: "Store") -> _Listing:
            return _listing(cells, passing(terms, cells), form)

        self._store.ask(question, show, self._view.show_filter_error)

    def _store_changed(self) -> None:
        if self._pause.isActive():
            self._outdated = True
        else:
            self._pause.start()
            self.refresh()

    def _answered(self, scope: Scope | None, wanted: tuple[Terms, Form], answer: _Answer) -> None:
        self._asking = False
        if scope is not self._scope:  # chosen meanwhile
            self._outdated = False
            self.refresh()
            return
        if scope is not self._shown:
            self._shown = scope
            self.scope_shown.emit(scope)
        self.stored = answer.stored
        self._cells = answer.cells
        self._table.show(answer.cells, *answer.listing)
        self._store.ask(lambda _store: answer.cells.prepare(), lambda _: None, self._refused)  # shown before that
        self.listed.emit()
        if answer.error:
            self._view.show_filter_error(answer.error)
        if wanted != (self._terms, self._form):  # chosen meanwhile
            self._filter()
        if not self._pause.isActive():
            self._catch_up()

    def _catch_up(self) -> None:
        if self._outdated and not self._asking:
            self._outdated = False
            self._store_changed()

    def _refused(self, text: str) -> None:
        self._asking = self._outdated = False
        self._view.show_error(text)
        self.listed.emit()


def _listing(cells: MetricTable, mask: Mask, form: Form) -> _Listing:
    return _Listing(mask, RunTable(cells, mask) if form == "runs" else None)


def _columns(scope: Scope | None) -> tuple[ResultColumn, ...]:
    return scope.columns if scope else COLUMNS
