"""Keeps the Results page's table, frontier and layer map in step with the store and the user's choices."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from PySide6.QtCore import QObject, QTimer

from wina_app.models.results_comparison import RunPair, compare
from wina_app.models.results_filter import Term, parse_filter
from wina_app.models.results_frontier import Abscissa, FrontierData, Measure, frontier, measures, models
from wina_app.models.results_rows import COLUMNS, Entry
from wina_app.models.results_scope import Scope, scope_of
from wina_app.models.results_table import ResultsTable, make_entries
from wina_app.models.row_table import Column, Key
from wina_app.quantities import counted
from wina_app.store_thread import StoreThread
from wina_core.errors import WinaError
from wina_core.specs import RunSpec
from wina_core.study_specs import StudySpec

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import LayerMap, MetricRow, Store

_PAUSE_MS = 1000
"""Between two readings of the store while results land: each sorts and filters every row."""


class ResultsView(Protocol):
    """What the controller needs of the page."""

    def show_count(self, shown: int, stored: int) -> None:
        """Say how many rows there are; none stored is the empty state."""

    def show_scope(self, title: str) -> None:
        """Say to which study the page is narrowed; empty for none."""

    def show_filter_error(self, text: str) -> None:
        """Say what is wrong with the filter; empty when nothing is."""

    def show_choices(
        self, measures: Sequence[Measure], measure: Measure | None, models: dict[str, str], model: str
    ) -> None:
        """Offer what the frontier can show, and mark what it does."""

    def show_frontier(self, data: FrontierData | None, abscissa: Abscissa) -> None:
        """Draw the frontier; None when no row passes the filter."""

    def show_layers(self, row: "MetricRow | None", layers: "LayerMap | None") -> None:
        """Draw the measured sparsity of a run; no row when none is selected, no layers when nothing was gated."""

    def show_spec(self, spec: RunSpec) -> None:
        """Show how a number was computed."""

    def show_comparable(self, comparable: bool) -> None:
        """Say whether the selected rows are of two runs."""

    def show_comparison(self, pair: RunPair) -> None:
        """Show two runs side by side."""

    def show_error(self, text: str) -> None:
        """Show an error inline."""

    def show_notice(self, text: str) -> None:
        """Show a remark inline."""


class ResultsController(QObject):
    """Between the store and the page; the table's model is shared with the view."""

    def __init__(self, store: StoreThread, view: ResultsView) -> None:
        super().__init__()
        self.table = ResultsTable()
        self._store, self._view = store, view
        self._abscissa: Abscissa = "target"
        self._measure: Measure | None = None
        self._model = ""
        self._selected: Entry | None = None
        self._everything: Mapping[Key, Entry] = {}
        """What the table showed last without a scope."""
        self._scope: Scope | None = None
        self._shown_scope: Scope | None = None
        """Of the rows in the table."""
        self._filter = ""
        self._pair: tuple[MetricRow, ...] = ()
        self._asking = self._outdated = self._visible = False
        self._undrawn = True
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(_PAUSE_MS)
        self._pause.timeout.connect(self._catch_up)
        self.table.content_changed.connect(self._show_frontier)
        self.table.content_changed.connect(self._forget_hidden)
        store.changed.connect(self._store_changed)
        self._show_frontier()
        self.refresh()

    # ---- reading the store ---------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read the store again; one reading at a time, the last one after the last change."""
        if self._asking:
            self._outdated = True
            return
        self._asking, scope = True, self._scope
        known = self.table.entries if scope else self._everything
        columns = scope.columns if scope else COLUMNS

        def question(store: "Store") -> list[Entry]:
            rows = store.metric_rows()
            return make_entries([row for row in rows if row.run in scope.arms] if scope else rows, known, columns)

        self._store.ask(question, lambda entries: self._answered(scope, columns, entries), self._refused)

    def _store_changed(self) -> None:
        if self._pause.isActive():
            self._outdated = True
        else:
            self._pause.start()
            self.refresh()

    def _answered(self, scope: Scope | None, columns: tuple[Column, ...], entries: list[Entry]) -> None:
        self._asking = False
        if scope is not self._scope:  # chosen meanwhile
            self._outdated = False
            self.refresh()
            return
        if scope is not self._shown_scope:
            self._shown_scope = scope
            terms = self._terms(self._filter, columns)  # those of columns that are no more are passed over
            self.table.replace(columns, terms or (), entries)
            self.select(-1)
            self.select_rows(())
        else:
            self.table.set_entries(entries)
        if scope is None:
            self._everything = self.table.entries
        if not self._pause.isActive():
            self._catch_up()

    def _catch_up(self) -> None:
        if self._outdated and not self._asking:
            self._outdated = False
            self._store_changed()

    def _refused(self, text: str) -> None:
        self._asking = self._outdated = False
        self._view.show_error(text)

    def set_visible(self, visible: bool) -> None:
        """Whether the page is shown: the frontier is computed only then."""
        self._visible = visible
        if visible and self._undrawn:
            self._show_frontier()

    # ---- what the user does --------------------------------------------------------------------------------------

    def set_filter(self, text: str) -> None:
        """Show only rows that match the line; a line that cannot be read leaves the table as it is."""
        self._filter = text
        terms = self._terms(text, self.table.columns)
        if terms is not None:
            self.table.set_filter(terms)

    def _terms(self, text: str, columns: Sequence[Column]) -> tuple[Term, ...] | None:
        try:
            terms = parse_filter(text, {column.key: index for index, column in enumerate(columns)})
        except WinaError as error:
            self._view.show_filter_error(str(error))
            return None
        self._view.show_filter_error("")
        return terms

    def show_study(self, study: StudySpec | None) -> None:
        """Show the runs of a study alone, whose roles are mapped, beside what the paper published; None for all."""
        if study is None:
            self._narrow(None)
        else:
            self._store.ask(lambda _store: scope_of(study), self._narrow, self._view.show_error)

    def _narrow(self, scope: Scope | None) -> None:
        self._scope = scope
        self._view.show_scope(scope.title if scope else "")
        self.refresh()

    def choose_measure(self, measure: Measure) -> None:
        """Plot another metric."""
        self._measure = measure
        self._show_frontier()

    def choose_model(self, model: str) -> None:
        """Plot another model, given by its hash."""
        self._model = model
        self._show_frontier()

    def choose_abscissa(self, abscissa: Abscissa) -> None:
        """Plot against another count of sparsity."""
        self._abscissa = abscissa
        self._show_frontier()

    def select(self, row: int) -> None:
        """Show the layers of the run in this row of the table; -1 for none."""
        entry = self.table.shown[row] if 0 <= row < len(self.table.shown) else None
        if entry is not None and self._selected is not None and entry.row.run == self._selected.row.run:
            return
        self._selected = entry
        if entry is None:
            self._view.show_layers(None, None)
            return
        self._store.ask(
            lambda store: store.layer_map(entry.row.run),
            lambda layers: self._show_layers(entry, layers),
            self._view.show_error,
        )

    def select_rows(self, rows: Sequence[int]) -> None:
        """These rows of the table are selected; those of two runs can be compared."""
        shown = self.table.shown
        runs = {shown[row].row.run: shown[row].row for row in rows if row < len(shown)}
        self._pair = tuple(runs.values()) if len(runs) == 2 else ()
        self._view.show_comparable(bool(self._pair))

    def compare(self) -> None:
        """Compare the two selected runs, the upper one of the table first, on every task that they share."""
        if self._pair:
            first, second = self._pair
            self._store.ask(
                lambda store: compare(store, first, second), self._view.show_comparison, self._view.show_error
            )

    def _forget_hidden(self) -> None:
        """A run that does not pass the filter any more is not selected either."""
        if self._selected is not None and all(entry.row.run != self._selected.row.run for entry in self.table.passing):
            self.select(-1)

    def explain(self, row: int) -> None:
        """Show the spec of the run in this row."""
        run = self.table.shown[row].row.run
        self._store.ask(lambda store: store.run_spec(run), self._view.show_spec, self._view.show_error)

    def export(self, path: Path) -> None:
        """Write the rows that are shown, in their order; the suffix names the format."""
        try:
            self.table.write(path)
        except WinaError as error:
            self._view.show_error(str(error))
        else:
            self._view.show_notice(f"Saved {counted(self.table.rowCount(), 'row')} in {path}.")

    # ---- plots ---------------------------------------------------------------------------------------------------

    def _show_frontier(self) -> None:
        shown = self.table.passing
        self._view.show_count(len(shown), len(self._everything if self._shown_scope else self.table.entries))
        self._undrawn = not self._visible
        if self._undrawn:
            return
        offered, named = measures(shown), models(shown)
        measure = self._measure if self._measure in offered else _first_choice(offered, self._shown_scope)
        model = self._model if self._model in named else next(iter(named), "")
        self._view.show_choices(offered, measure, named, model)
        self._view.show_frontier(
            frontier(shown, measure, model, self._shown_scope) if measure else None, self._abscissa
        )

    def _show_layers(self, entry: Entry, layers: "LayerMap | None") -> None:
        if entry is self._selected:
            self._view.show_layers(entry.row, layers)


def _first_choice(offered: Sequence[Measure], scope: Scope | None) -> Measure | None:
    """What the paper published, else accuracy, else the divergence from dense, else the first."""
    published = scope.published_measures if scope else frozenset()
    offered = [measure for measure in offered if (measure.task, measure.metric) in published] or offered
    preferred = (measure for start in ("acc", "kl", "") for measure in offered if measure.metric.startswith(start))
    return next(preferred, None)
