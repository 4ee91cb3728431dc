"""Choices of a plot: logarithmic axes, series on and off in the legend."""

import math

import pytest
from PySide6.QtGui import QColor
from wina_app.plots.data_plot import DataPlot
from wina_app.plots.plot_items import Reference, Trace
from wina_app.style.theme import apply_theme

SPARSITIES = [0.0, 25.0, 50.0, 65.0]
ROSE = [1.0, 2.0, 10.0, 100.0]
BLUE, RED = QColor("#0072b2"), QColor("#d55e00")


def line(name: str, y: list[float], colour: QColor = BLUE, **more) -> Trace:
    return Trace(name, colour, SPARSITIES, y, str, keys=[f"{name} {x}" for x in SPARSITIES], **more)


@pytest.fixture
def plot(qtbot, qapp):
    apply_theme(qapp, "light", 1.0)
    view = DataPlot("test plot")
    qtbot.addWidget(view)
    view.resize(600, 320)
    view.set_axes("target sparsity (%)", "perplexity")
    view.show_traces([line("wina", ROSE), line("cats", [1.0, 4.0, 30.0, 300.0], RED)], [Reference("dense", RED, 1.0)])
    with qtbot.waitExposed(view):
        view.show()
    qapp.processEvents()
    return view


def test_a_logarithmic_axis_spaces_equal_ratios_equally(qtbot, plot):
    heights = [plot.place_of(0, point).y() for point in (0, 2, 3)]
    assert heights[1] - heights[2] > 3 * (heights[0] - heights[1])
    with qtbot.waitSignal(plot.view_changed):
        next(action for action in plot.actions() if action.text() == "Logarithmic y axis").trigger()
    heights = [plot.place_of(0, point).y() for point in (0, 2, 3)]
    assert heights[1] - heights[2] == pytest.approx(heights[0] - heights[1], abs=1e-6)
    assert plot.value_at(plot.place_of(0, 2)) == pytest.approx((50.0, 10.0))
    assert plot.nearest(plot.place_of(1, 3)) == (1, 3)
    (panel,) = plot.figure()
    assert panel.log_y
    assert panel.series[0].y == tuple(ROSE)
    assert 0.0 < panel.y_range[0] <= 1.0 < 300.0 <= panel.y_range[1] < 1e4


def test_values_without_a_logarithm_are_left_out_and_none_at_all_keep_the_axis_linear(plot):
    plot.set_log("y", True)
    plot.show_traces([line("wina", [0.0, 2.0, 10.0, 100.0])])
    assert math.isnan(plot.place_of(0, 0).y())
    for trace in (line("gain", [0.0, -1.0, -2.0, -3.0]), line("bars", ROSE, width=4.0)):
        plot.show_traces([trace])
        assert not plot.figure()[0].log_y


def test_a_click_in_the_legend_switches_a_series(plot):
    (_, cats, dense) = [sample.item for sample, _ in plot.legend.items]
    plot.legend.sigSampleClicked.emit(cats)
    assert plot.hidden == {"cats"}
    assert plot.nearest(plot.place_of(1, 2)) != (1, 2)
    assert [series.name for series in plot.figure()[0].series] == ["wina"]
    assert plot.getPlotItem().vb.viewRange()[1][1] < 150.0, "the range follows what is left"
    plot.legend.sigSampleClicked.emit(dense)
    assert plot.figure()[0].references == ()
    plot.hide_series(frozenset())
    assert cats.isVisible()


def test_the_legend_has_as_many_names_as_there_is_room_for(plot, qapp):
    plot.show_traces([line(f"<b>{number}</b>", ROSE) for number in range(40)])
    qapp.processEvents()
    texts = [label.text for _, label in plot.legend.items]
    assert texts[0] == "&lt;b&gt;0&lt;/b&gt;", "a name is no markup"
    assert len(texts) == int(plot.getPlotItem().size().height()) // 20
    assert texts[-1] == f"and {40 - len(texts) + 1} more"


def test_the_view_comes_back(qtbot, plot):
    plot.set_log("y", True)
    plot.hide_series(frozenset({"cats"}))
    again = DataPlot("another")
    qtbot.addWidget(again)
    again.restore_view(plot.view_state())
    again.show_traces(plot.traces)
    assert again.is_log("y")
    assert again.view_state() == plot.view_state()
    again.restore_view({"log": 3, "hidden": [7]})
    assert again.view_state() == {"log": [], "hidden": []}
