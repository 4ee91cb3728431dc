"""Frontier and profile plots: what is drawn, what the pointer reads, how the zoom behaves."""

from dataclasses import replace

import numpy as np
import pyqtgraph as pg
import pytest
from PySide6.QtCore import QPointF, Qt
from wina_app.pages.results.plots.frontier import FrontierMeasure, first_choice, frontier, models
from wina_app.pages.results.plots.frontier_plot import FrontierPlot
from wina_app.plots.data_plot import DataPlot
from wina_app.style.theme import apply_theme, method_colour

from tests.wina_app.stored_runs import record_demo_study
from wina_core.store import Store
from wina_core.store.metric_frames import metrics_frame

ACC = FrontierMeasure("demo_choice", "acc", True)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    with Store(f"sqlite:///{tmp_path_factory.mktemp('store') / 'results.sqlite'}") as store:
        record_demo_study(store)
        entries = metrics_frame(store.metric_rows())
    return frontier(entries, ACC, next(iter(models(entries))))


@pytest.fixture
def plot(qtbot, qapp, data):
    apply_theme(qapp, "light")
    plot = FrontierPlot()
    qtbot.addWidget(plot)
    plot.resize(700, 400)
    with qtbot.waitExposed(plot):
        plot.show()
    plot.show_frontier(data, "gated")
    qapp.processEvents()
    return plot


def names_at(plot: DataPlot) -> list[str]:
    return [label.text for _, label in plot.legend.items]


def test_each_configuration_has_its_methods_colour_and_its_rotations_marker(plot):
    assert [trace.name for trace in plot.traces] == ["teal", "wina", "wina, global + heads"]
    teal, wina, rotated = plot.traces
    assert teal.colour == method_colour("teal")
    assert wina.colour == rotated.colour == method_colour("wina")
    assert teal.symbol == wina.symbol != rotated.symbol
    assert list(teal.x) == pytest.approx([24.8, 39.8, 49.8, 64.8]), "as measured"
    assert np.isfinite(teal.errors).all()


def test_the_dense_reference_is_dashed_and_in_view(plot):
    (line,) = [item for item in plot.getPlotItem().items if isinstance(item, pg.InfiniteLine) and item.isVisible()]
    assert line.value() == pytest.approx(0.71)
    assert line.pen.style() == Qt.PenStyle.DashLine
    low, high = plot.getPlotItem().vb.viewRange()[1]
    assert low < 0.71 < high
    assert names_at(plot) == ["teal", "wina", "wina, global + heads", "dense"]


def moved(data, **sparsities):
    """Replace fields of the lines' points by functions of the target."""

    def made(point):
        return point._replace(**{key: of(point.target_sparsity) for key, of in sparsities.items()})

    return replace(data, lines=tuple(replace(one, points=tuple(map(made, one.points))) for one in data.lines))


def test_a_line_is_in_the_order_along_x_of_what_was_measured_or_else_its_target(plot, data):
    backwards = moved(data, gated_sparsity=lambda target: 1.0 - target)
    plot.show_frontier(backwards, "gated")
    assert list(plot.traces[0].x) == pytest.approx([35.0, 50.0, 60.0, 75.0])
    assert [plot.traces[0].keys[0], plot.traces[0].keys[-1]] == [
        data.lines[0].points[-1].run,
        data.lines[0].points[0].run,
    ]

    plot.show_frontier(moved(data, gated_sparsity=lambda _: None), "gated")
    assert list(plot.traces[0].x) == [25.0, 40.0, 50.0, 65.0]
    assert "target 25.0 %, not measured" in plot.traces[0].readout(0)


def test_the_readout_has_both_sparsities_and_says_when_a_point_misses_its_target(plot, data):
    text = plot.traces[0].readout(3)
    assert "gated 64.8 %  ·  target 65.0 %" in text
    assert "than its target" not in text
    off = moved(data, gated_sparsity=lambda target: target + 0.027, net_sparsity=lambda target: target - 0.01)
    plot.show_frontier(off, "gated")
    text = plot.traces[0].readout(3)
    assert "gated 67.7 %  ·  net 64.0 %  ·  target 65.0 %" in text
    assert "⚠ 2.7 points sparser than its target" in text
    plot.show_frontier(replace(off, count="net"), "target")
    assert "net 64.0 %  ·  gated 67.7 %  ·  target 65.0 %" in plot.traces[0].readout(3)
    assert "⚠ 1.0 points denser than its target" in plot.traces[0].readout(3)


def test_a_click_chooses_a_point_or_a_line(plot):
    trace, box = plot.traces[0], plot.getPlotItem().vb
    point = box.mapViewToScene(QPointF(trace.x[1], trace.y[1]))
    between = box.mapViewToScene(QPointF((trace.x[2] + trace.x[3]) / 2, (trace.y[2] + trace.y[3]) / 2))
    assert plot.keys_at(point) == (trace.keys[1],)
    assert plot.keys_at(between) == tuple(trace.keys)
    assert plot.keys_at(box.mapViewToScene(QPointF(30.0, 0.5))) == ()


def test_selected_points_have_rings_and_other_lines_step_back(plot):
    run = plot.traces[1].keys[2]
    plot.highlight([run])
    opacities = [items._curve.opacity() for items in plot._items]
    assert opacities[1] == 1.0
    assert opacities[0] == opacities[2] < 0.5
    x, y = plot._rings.getData()
    assert (list(x), list(y)) == (pytest.approx([49.8]), [plot.traces[1].y[2]])
    plot.highlight(["of another task"])
    assert [items._curve.opacity() for items in plot._items] == [1.0] * 3
    assert len(plot._rings.getData()[0]) == 0


def _moved(lines, value):
    return tuple(replace(line, points=tuple(point._replace(value=value) for point in line.points)) for line in lines)


def test_what_is_no_finite_number_has_no_place(plot, qapp, data):
    for value in (float("nan"), float("inf"), float("-inf")):
        lines, dense = _moved(data.lines[:1], value), _moved(data.dense, value)
        plot.show_frontier(replace(data, lines=lines, dense=dense), "target")
        plot.grab()
        qapp.processEvents()
        assert plot.references == ()
        assert np.isfinite(plot.getPlotItem().vb.viewRange()).all()


@pytest.mark.parametrize(
    ("metrics", "first"),
    [(("acc", "acc_norm"), "acc_norm"), (("acc",), "acc"), (("kl", "perplexity"), "kl"), (("bleu",), "bleu")],
)
def test_the_frontier_begins_with_the_metric_that_results_prefer(metrics, first):
    offered = [FrontierMeasure("piqa", metric) for metric in metrics]
    assert first_choice(offered, None) == FrontierMeasure("piqa", first)
