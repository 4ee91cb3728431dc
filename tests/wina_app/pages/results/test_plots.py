"""The plots half of the Results page: what is computed when, and how table and plots follow one selection."""

import pytest
from PySide6.QtCore import QObject, QPointF, Qt, Signal
from wina_app.pages.results.plots.controller import PLOTS, ResultsPlotsController
from wina_app.pages.results.runs import RunSelection
from wina_app.pages.results.table import ResultsTable

from tests.wina_app.fakes import Recorded
from tests.wina_app.pages.results.results_content import show_rows
from tests.wina_app.stored_runs import DirectStore


class RecordedPlots(Recorded):
    """The view and all its panels, whose calls are remembered together."""

    tasks = layers = allocation = compare = property(lambda self: self)


_SHOWS = {
    "frontier": "show_frontier",
    "tasks": "show_bars",
    "layers": "show_runs",
    "allocation": "show_profiles",
    "compare": "show_comparison",
}


@pytest.fixture
def store(filled_store):
    return filled_store


pytestmark = pytest.mark.usefixtures("qapp")


class SlowStore(QObject):
    """Answers when it is told to."""

    changed = Signal()

    def __init__(self, store):
        super().__init__()
        self.store, self.waiting = store, []

    def ask(self, question, answer=lambda _: None, refused=lambda _: None):  # noqa: ARG002 - as StoreThread's
        self.waiting.append(lambda: answer(question(self.store)))

    def answer(self, number):
        self.waiting.pop(number)()


class Half:
    """The controller over a recorded view."""

    def __init__(self, store):
        self.view, self.table, self.selection, self.store = RecordedPlots(), ResultsTable(), RunSelection(), store
        self.controller = ResultsPlotsController(store, self.table, self.selection, self.view)
        self.rows = store.store.metric_rows()
        self.runs = list(dict.fromkeys(row.run for row in self.rows))
        show_rows(self.table, self.rows)

    def drawn_plots(self):
        """The plots that were drawn, each as often as it was."""
        return [plot for plot, method in _SHOWS.items() for _ in self.view.calls(method)]

    def axes(self):
        """The measures against which the frontier was drawn."""
        return [args[1] for name, args, _ in self.view._calls if name == "show_frontier"]


@pytest.fixture
def half(store):
    return Half(DirectStore(store))


def test_only_the_plot_that_is_shown_is_computed(half):
    assert half.drawn_plots() == [], "the page is hidden"
    half.controller.set_visible(True)
    assert half.drawn_plots() == ["frontier"]
    half.controller.show("tasks")
    half.controller.show("frontier")
    assert half.drawn_plots() == ["frontier", "tasks"], "nothing changed meanwhile"
    show_rows(half.table, half.rows[:-3])
    assert half.drawn_plots() == ["frontier", "frontier", "tasks"]


def test_the_metric_that_is_shown_first_stays_while_others_arrive(half):
    some = [row for row in half.rows if row.metric == "kl" and row.target_sparsity in (0.0, 0.25)]
    assert some
    show_rows(half.table, some)
    half.controller.set_visible(True)
    assert half.view.last("show_frontier").measure.metric == "kl"
    show_rows(half.table, half.rows)
    assert half.view.last("show_frontier").measure.metric == "kl"
    half.controller.set_scope(None)
    show_rows(half.table, half.rows[1:])
    assert half.view.last("show_frontier").measure.metric == "acc", "of another study it is chosen anew"


def test_the_frontier_is_drawn_against_the_count_of_the_settings_until_another_axis_is_chosen(half):
    half.controller.set_visible(True)
    assert half.view.calls("show_frontier")[-1].count == "gated"
    half.controller.choose_x_axis("target")
    assert half.axes() == ["gated", "target"]
    half.controller.set_count("net")
    assert half.axes()[-1] == "net", "the setting is followed again"
    half.controller.set_count("net")
    assert len(half.axes()) == 3, "nothing changed"


def test_another_count_is_followed_by_every_plot_that_compares(half):
    half.controller.set_visible(True)
    half.selection.select(half.runs[1:3])
    for plot, count in zip(("tasks", "layers", "allocation", "compare"), ("net", "gated") * 2, strict=True):
        half.controller.show(plot)
        before = half.drawn_plots().count(plot)
        half.controller.set_count(count)
        assert half.drawn_plots().count(plot) > before, plot
    assert [run.run for run in half.view.last("show_runs")] == half.runs[1:3]
    assert half.view.last("show_comparison").runs == tuple(half.runs[1:3])


def test_an_answer_about_earlier_runs_is_dropped(store):
    half = Half(SlowStore(store))
    half.controller.show("layers")
    half.controller.set_visible(True)
    half.selection.select(half.runs[1:2])
    half.selection.select(half.runs[2:3])
    half.store.answer(-1)
    half.store.answer(-1)
    (drawn,) = half.view.calls("show_runs")
    assert [run.run for run in drawn] == half.runs[2:3]


# ---- table and plots -------------------------------------------------------------------------------------------


@pytest.fixture
def page(show_page, store):
    return show_page(store)


def selected_runs(page):
    return set(page.controller.runs_of(sorted({index.row() for index in page.table.selectionModel().selectedRows()})))


def row_of(page, run):
    return page.controller.table.lines_of_runs([run])[0]


def test_rows_that_are_selected_are_marked_in_the_plots(page):
    run = page.plots.frontier.plot.traces[0].keys[2]
    page.table.selectRow(row_of(page, run))
    assert page.plots.frontier.plot.highlighted == {run}
    assert len(page.table.selectionModel().selectedRows()) == 1, "the run's other rows stay as they are"
    page.plots.show_plot("tasks")
    assert page.plots.tasks.plot.highlighted == {run}


def test_a_click_in_a_plot_selects_the_rows_of_its_runs(page, qtbot):
    plot = page.plots.frontier.plot
    trace = plot.traces[1]
    at = plot.mapFromScene(plot.getPlotItem().vb.mapViewToScene(QPointF(trace.x[1], trace.y[1])))
    qtbot.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert selected_runs(page) == {trace.keys[1]}
    assert len(page.table.selectionModel().selectedRows()) == 3, "every metric of the run"
    assert plot.highlighted == {trace.keys[1]}
    plot.keys_chosen.emit(tuple(trace.keys), True)
    assert selected_runs(page) == set(trace.keys)
    assert page.compare.isEnabled()


def test_more_than_two_runs_are_compared_beside_the_table(page, qtbot):
    runs = page.plots.frontier.plot.traces[1].keys
    assert not page.compare.isEnabled()
    page.controller.plots.choose_runs(tuple(runs[:3]), False)
    qtbot.mouseClick(page.compare, Qt.MouseButton.LeftButton)
    compare = page.plots.compare
    assert compare.comparison.runs == tuple(runs[:3])
    assert "Holm" in compare.heading.whole()
    compare.reference_chosen.emit(runs[2])
    qtbot.waitUntil(lambda: compare.comparison is not None and compare.comparison.runs[0] == runs[2])
    page.table.clearSelection()
    qtbot.waitUntil(lambda: compare.comparison is None)
    assert "two or more runs" in compare.remark.text()


def test_every_plot_is_one_command_away_and_not_exported_while_it_is_empty(page):
    commands = {action.text(): action for action in page.commands}
    for number, plot in enumerate(PLOTS):
        commands[f"Show the {page.plots.tabs.tabText(number).lower()} plot"].trigger()
        assert page.plots.plot == plot
    for plot, said in (("allocation", "nothing in this plot"), ("compare", "no comparison to")):
        page.plots.show_plot(plot)
        page.plots.export.click()
        assert said in page.message.label.text()
