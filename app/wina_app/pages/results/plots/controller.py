"""Controller of the plots of the Results page: computed from the table's rows and the selected runs.

Only the plot that is shown is computed, on the store's thread, and again when rows land or other runs are selected.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from PySide6.QtCore import QObject, QTimer, Signal

from wina_app.pages.results.comparison import compare
from wina_app.pages.results.plots.frontier import FIRST_QUALITY, X_AXES, FrontierMeasure, cost_axis, lines_of, pareto_of
from wina_app.pages.results.plots.layers import RunLayers, read_layers
from wina_app.pages.results.plots.task_bars import bars_of
from wina_app.pages.results.runs import RunSelection, Scope
from wina_app.pages.results.table import ResultsTable
from wina_app.services.store_thread import StoreThread
from wina_core.analysis.comparison.axes import CostAxis
from wina_core.analysis.results.measured import DEFAULT_COUNT, Count, SparsityKind
from wina_core.specs import DENSE

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_app.pages.results.plots.tabs import ResultsPlots
    from wina_core.store import MetricRow, Store

Plot = Literal["frontier", "tasks", "layers", "allocation", "compare"]
PLOTS: tuple[Plot, ...] = get_args(Plot)
_OF_ROWS: tuple[Plot, ...] = ("frontier", "tasks")
_OF_SELECTION: tuple[Plot, ...] = ("layers", "allocation", "compare")
_REST_MS = 250
"""Debounce of the comparison, which takes seconds for many documents."""


class ResultsPlotsController(QObject):
    """Controller between the table's rows, the selection, the store and the plots."""

    plan_requested = Signal(str)
    """The user clicked a point of the run with this hash, to see its plan."""

    def __init__(self, store: StoreThread, table: ResultsTable, selection: RunSelection, view: "ResultsPlots") -> None:
        super().__init__()
        self._store, self._table, self._selection, self._view = store, table, selection, view
        self._scope: Scope | None = None
        self._paper = True
        self._plot: Plot = "frontier"
        self._visible = False
        self._compute: dict[Plot, Callable[[], None]] = {
            "frontier": self._show_frontier,
            "tasks": self._show_tasks,
            "layers": self._show_layers,
            "allocation": self._show_allocation,
            "compare": self._show_compare,
        }
        self._stale = set(PLOTS)
        """Plots whose rows, choices or runs changed since they were computed."""
        self._requests = dict.fromkeys(PLOTS, 0)
        """Number of the last request of each plot; answers to earlier ones are dropped."""
        self._measure: FrontierMeasure | None = None
        self._compared: tuple[str, str] | None = None
        """Task and metric that the user selected last, in the frontier or the table; None for the frontier's."""
        self._model = ""
        self.count: Count = DEFAULT_COUNT
        """Measured sparsity that the plots compare by."""
        self._x_axis: str | None = None
        """One of `X_AXES`; None follows the setting."""
        self._bar_metric: str | None = None
        self._sparsity: float | None = None
        self._first: dict[str, Any] = {}
        """First choices of a study without the user's: they stay while others arrive."""
        self._selected: tuple[MetricRow, ...] = ()
        """All rows of the selected runs."""
        self._rest = QTimer(self, singleShot=True, interval=_REST_MS)
        self._rest.timeout.connect(lambda: self._outdate("compare"))
        table.content_changed.connect(self._on_rows)
        selection.changed.connect(self._on_selection)

    def view_state(self) -> dict[str, object]:
        """Return the chosen metric and axis of the frontier, and the metric of the bars, as JSON."""
        return {
            "measure": self._measure and asdict(self._measure),
            "x_axis": self._x_axis,
            "bar_metric": self._bar_metric,
            "compared": self._compared,
        }

    def restore_view(self, state: Mapping[str, object]) -> None:
        """Restore choices of `view_state`; a plot ignores those that are no longer offered."""
        measure, compared = state.get("measure"), state.get("compared")
        with suppress(TypeError, ValueError):
            self._measure = FrontierMeasure(**measure) if isinstance(measure, dict) else None
        match compared:
            case [str(task), str(metric)]:
                self._compared = task, metric
        if (x_axis := str(state.get("x_axis"))) in (key for _, key in X_AXES):
            self._x_axis = x_axis
        if isinstance(bar_metric := state.get("bar_metric"), str):
            self._bar_metric = bar_metric
        self._outdate(*PLOTS)

    # ---- when something is computed ------------------------------------------------------------------------------

    def set_visible(self, visible: bool) -> None:
        """Compute for a visible page, nothing for a hidden one."""
        self._visible = visible
        self._compute_if_stale()

    def show(self, plot: Plot) -> None:
        self._plot = plot
        self._compute_if_stale()

    def set_scope(self, scope: Scope | None) -> None:
        """Narrow the plots to a study, before its rows come; None for everything."""
        self._scope = scope
        self._first = {}

    def _remember_first(self, scope: Scope | None, **choices: Any) -> None:
        if scope is self._scope:  # else the answer is about another study
            self._first = {name: choice for name, choice in choices.items() if choice is not None} | self._first

    def _outdate(self, *plots: Plot) -> None:
        self._stale |= set(plots)
        self._compute_if_stale()

    def _compute_if_stale(self) -> None:
        if self._visible and self._plot in self._stale:
            self._stale.discard(self._plot)
            self._compute[self._plot]()

    def _on_rows(self) -> None:
        # Runs that pass no longer leave the selection first, which may set `_selected`.
        self._selection.retain(self._table.passing_runs(self._selection.runs))
        before, self._selected = self._selected, self._rows_of_selection()
        self._outdate(*_OF_ROWS, *(_OF_SELECTION if before != self._selected else ()))

    def _rows_of_selection(self) -> "tuple[MetricRow, ...]":
        return self._table.passing_rows(self._selection.runs)

    def _on_selection(self) -> None:
        self._selected = self._rows_of_selection()
        self._view.show_selected(self._selection.runs)
        self._rest.start()  # the comparison alone waits: it takes longest
        self._outdate("layers", "allocation")

    def _ask(
        self,
        plot: Plot,
        question: "Callable[[Store], Any]",
        answer: Callable[[Any], None],
        refused: Callable[[str], None] | None = None,
    ) -> None:
        """Ask the store; an answer to an outdated question is dropped."""
        self._requests[plot] += 1
        number = self._requests[plot]

        def if_last(show: Callable[[Any], None]) -> Callable[[Any], None]:
            return lambda value: show(value) if number == self._requests[plot] else None

        self._store.ask(question, if_last(answer), if_last(refused or self._view.show_error))

    def _selected_runs(self) -> "list[MetricRow]":
        """Return one row of each selected run, in the order of the selection."""
        first_rows: dict[str, MetricRow] = {}
        for row in self._selected:
            first_rows.setdefault(row.run, row)
        return [first_rows[run] for run in self._selection.runs if run in first_rows]

    # ---- what the user does --------------------------------------------------------------------------------------

    def choose_measure(self, measure: FrontierMeasure) -> None:
        self._measure = measure
        self._outdate("frontier")
        self.select_measure(measure.task, measure.metric)

    def select_measure(self, task: str, metric: str) -> None:
        """Compare by this metric first."""
        if (task, metric) != self._compared:
            self._compared = task, metric
            self._outdate("compare")

    def choose_model(self, model: str) -> None:
        """Plot another model, given by its hash."""
        self._model = model
        self._outdate(*_OF_ROWS)

    def set_count(self, count: Count) -> None:
        """Compare by another measured sparsity, in all plots."""
        if count != self.count:
            # The frontier's axis follows the setting again.
            self.count, self._x_axis = count, None
            self._outdate(*_OF_ROWS, *_OF_SELECTION)

    def choose_x_axis(self, x_axis: str) -> None:
        """Plot the frontier against another of `X_AXES`."""
        self._x_axis = x_axis
        self._outdate("frontier")

    def choose_bar_metric(self, metric: str) -> None:
        self._bar_metric = metric
        self._outdate("tasks")

    def choose_sparsity(self, sparsity: float) -> None:
        """Let the bars show the runs nearest to another sparsity."""
        self._sparsity = sparsity
        self._outdate("tasks")

    def overlay_paper(self, on: bool) -> None:
        self._paper = on
        self._outdate(*_OF_ROWS)

    def choose_runs(self, runs: Sequence[str], more: bool) -> None:
        """Select the runs of clicked points, bars or lines, or with `more` add them to the others.

        Points without a run have an empty key.
        """
        (self._selection.toggle if more else self._selection.select)(tuple(dict.fromkeys(filter(None, runs))))

    def open_point(self, runs: Sequence[str], more: bool) -> None:
        """Select the run of a clicked point and open its plan; with `more` only add it to the selection."""
        self.choose_runs(runs, more)
        gated = [row.run for row in self._selected_runs() if row.run in runs and row.method != DENSE.name]
        if not more and len(runs) == 1 and gated:
            self.plan_requested.emit(gated[0])

    def choose_reference(self, run: str) -> None:
        self._selection.make_reference(run)

    # ---- what is computed ----------------------------------------------------------------------------------------

    def _show_frontier(self) -> None:
        axis = cost_axis(self._x_axis or "")
        if axis is None:
            self._show_lines()
        else:
            self._show_pareto(axis)

    def _show_pareto(self, axis: CostAxis) -> None:
        passing, preferred, model = self._table.passing(), (self._measure, FIRST_QUALITY), self._model

        def answer(choices_and_data: tuple[Any, ...]) -> None:
            choices, data = choices_and_data
            self._view.show_paper(named=False, checked=False)
            self._view.show_measures(*choices)
            self._view.show_pareto(data, self._x_axis or "")

        self._ask("frontier", lambda store: pareto_of(store, passing(), preferred, model, axis), answer)

    def _show_lines(self) -> None:
        passing, scope = self._table.passing(), self._scope
        model, count, paper = self._model, self.count, self._paper
        x_axis = cast(SparsityKind, self._x_axis or count)
        preferred = self._measure, self._first.get("measure")

        def answer(choices_and_data: tuple[Any, ...]) -> None:
            choices, data = choices_and_data
            self._remember_first(scope, measure=choices.measure)
            self._view.show_paper(bool(scope and scope.published_measures), paper)
            self._view.show_measures(*choices)
            self._view.show_frontier(data, x_axis)

        self._ask("frontier", lambda _: lines_of(passing(), preferred, model, scope, paper, count), answer)

    def _show_tasks(self) -> None:
        passing, scope, paper = self._table.passing(), self._scope, self._paper
        model, count = self._model, self.count
        metrics = self._bar_metric, self._first.get("metric")
        sparsities = self._sparsity, self._first.get("sparsity")

        def answer(choices_and_chart: tuple[Any, ...]) -> None:
            models, model, choices, chart = choices_and_chart
            self._remember_first(scope, metric=choices.metric, sparsity=choices.sparsity)
            self._view.show_paper(bool(scope and scope.published_measures), paper)
            self._view.show_measures((), None, models, model)
            self._view.tasks.show_choices(choices)
            self._view.tasks.show_bars(chart)

        # Without the paper's numbers the study still names the configurations.
        drawn_scope = scope if paper or not scope else replace(scope, paper="")
        self._ask("tasks", lambda _: bars_of(passing(), metrics, sparsities, model, drawn_scope, count), answer)

    def _show_layers(self) -> None:
        self._ask("layers", self._layers_reader(), self._view.layers.show_runs)

    def _show_allocation(self) -> None:
        self._ask("allocation", self._layers_reader(), self._view.allocation.show_profiles)

    def _layers_reader(self) -> "Callable[[Store], tuple[RunLayers, ...]]":
        rows, count = self._selected_runs(), self.count
        return lambda store: read_layers(store, rows, count)

    def _show_compare(self) -> None:
        rows, count = self._selected_runs(), self.count
        show, measure = self._view.compare.show_comparison, self._compared or self._frontier_measure
        if len(rows) < 2:
            self._requests["compare"] += 1  # an answer that is under way is about other runs
            show(None, "Select rows of two or more runs, the others with Ctrl held.")
            return
        show(None, f"Comparing {len(rows)} runs…")
        self._ask(
            "compare",
            lambda store: compare(store, rows, count, measure),
            lambda comparison: show(comparison, ""),
            partial(show, None),
        )

    @property
    def _frontier_measure(self) -> tuple[str, str] | None:
        measure = self._measure or self._first.get("measure")
        return None if measure is None else (measure.task, measure.metric)
