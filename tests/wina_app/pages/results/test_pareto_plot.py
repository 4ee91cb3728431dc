"""The frontier over a cost: points of all bits, the front, faded and imported points, and the plan of a click."""

import pytest
from wina_app.pages.results.plots.frontier import FrontierMeasure, ParetoData, pareto_readout
from wina_app.pages.results.plots.frontier_plot import ParetoPlot
from wina_app.style.theme import method_colour

from tests.wina_app.pages.results.results_content import show_rows
from tests.wina_app.pages.results.test_plots import Half
from tests.wina_app.stored_runs import DirectStore
from wina_core.analysis.comparison.axes import AXES
from wina_core.analysis.comparison.frontier import Point

pytestmark = pytest.mark.usefixtures("qapp")

KL = FrontierMeasure("original", "kl", False)
POINTS = (
    Point("dense", 100.0, -3e-9, 1e-9, run="a", method="dense", rotation="none", group="n 4096"),
    Point("wina 50 %", 60.0, 0.05, 0.001, run="b", method="wina", rotation="none", group="n 4096"),
    Point("int4, dense", 40.0, 0.01, 0.001, run="c", method="dense", rotation="none", bits="int4", group="n 4096"),
    Point("int4, wina 50 %", 25.0, 0.02, None, run="d", method="wina", rotation="none", bits="int4", group="n 4096"),
    Point("Q4_0", 45.0, 0.001, 1e-4, imported=True, source="llama-perplexity, kl.log, 2026-11-24"),
)
DATA = ParetoData(KL, AXES["bytes_read"], POINTS, (True, False, True, True, False))


@pytest.fixture
def plot(qtbot) -> ParetoPlot:
    pareto = ParetoPlot()
    qtbot.addWidget(pareto)
    pareto.resize(900, 500)
    pareto.show_points(DATA)
    return pareto


def trace(plot: ParetoPlot, name: str):
    (match,) = [trace for trace in plot.traces if trace.name == name]
    return match


def test_the_front_has_steps_between_its_points_and_lies_on_a_logarithmic_axis(plot):
    front = trace(plot, "Pareto front")
    assert front.x == (25.0, 40.0, 40.0, 100.0, 100.0)
    assert front.y == (0.02, 0.02, 0.01, 0.01, 1e-6), "what is below is rounding"
    assert plot.is_log("y")
    plot.show_points(ParetoData(FrontierMeasure("task", "acc", True), AXES["bytes_read"], POINTS[:2], (True, True)))
    assert not plot.is_log("y")


def test_dominated_points_are_faded_and_imported_ones_are_crosses_that_cannot_be_selected(plot):
    prominent, faded, imported = (trace(plot, name) for name in ("int4, wina", "wina", "imported"))
    assert prominent.colour == method_colour("wina")
    assert faded.colour != method_colour("wina")
    assert prominent.symbol != faded.symbol, "by bits"
    assert (imported.symbol, list(imported.keys)) == ("x", [])
    assert list(faded.keys) == ["b"]


def test_a_point_says_what_it_is():
    texts = [pareto_readout(DATA, index) for index in range(5)]
    assert "wina 50 %" in texts[1]
    assert "bytes read per token 60 MB" in texts[1]
    assert "click: open its plan" in texts[1]
    assert "click" not in texts[0], "a dense run has none"
    assert "on the front" in texts[3]
    assert "±" not in texts[3]
    assert "imported: llama-perplexity, kl.log, 2026-11-24" in texts[4]


@pytest.fixture
def half(filled_store):
    return Half(DirectStore(filled_store))


def test_another_axis_shows_the_points_of_the_original(half):
    half.controller.set_visible(True)
    half.controller.choose_x_axis("cost:gated")
    data = half.view.last("show_pareto")
    assert {point.run for point in data.points} <= set(half.runs)
    assert any(data.front)
    assert half.controller.view_state()["x_axis"] == "cost:gated"
    show_rows(half.table, [])
    assert half.view.last("show_pareto") is None


def test_a_click_selects_a_run_and_opens_its_plan_unless_others_are_added(half):
    opened: list[str] = []
    half.controller.plan_requested.connect(opened.append)
    half.controller.set_visible(True)
    methods = {row.run: row.method for row in half.rows}
    gated = next(run for run, method in methods.items() if method != "dense")
    dense = next(run for run, method in methods.items() if method == "dense")
    half.controller.open_point((gated,), more=False)
    assert opened == [gated]
    assert half.selection.runs == (gated,)
    half.controller.open_point((dense,), more=True)
    half.controller.open_point((dense,), more=False)
    assert opened == [gated], "a dense run has no plan"
    assert half.selection.runs == (dense,)
