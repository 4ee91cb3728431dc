"""Controls of a plot: logarithmic axes, series on and off, reset, export; lines that lie upon each other."""

import math

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from wina_app.plots.coincidence import coinciding, dashes
from wina_app.plots.controls import SeriesList
from wina_app.plots.data_plot import DataPlot
from wina_app.plots.plot_items import Reference, Trace
from wina_app.style.theme import apply_theme

SPARSITIES = [0.0, 25.0, 50.0, 65.0]
ROSE = [1.0, 2.0, 10.0, 100.0]
BLUE, RED, GREEN = QColor("#0072b2"), QColor("#d55e00"), QColor("#009e73")


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
        qtbot.mouseClick(plot.controls.logs["y"], Qt.MouseButton.LeftButton)
    heights = [plot.place_of(0, point).y() for point in (0, 2, 3)]
    assert heights[1] - heights[2] == pytest.approx(heights[0] - heights[1], abs=1e-6)
    assert plot.value_at(plot.place_of(0, 2)) == pytest.approx((50.0, 10.0))
    assert plot.nearest(plot.place_of(1, 3)) == (1, 3)
    (panel,) = plot.figure()
    assert panel.log_y
    assert panel.series[0].y == tuple(ROSE)
    assert 0.0 < panel.y_range[0] <= 1.0 < 300.0 <= panel.y_range[1] < 1e4


def test_values_without_a_logarithm_are_left_out_and_none_at_all_is_explained(plot):
    plot.set_log("y", True)
    plot.show_traces([line("wina", [0.0, 2.0, 10.0, 100.0])])
    assert math.isnan(plot.place_of(0, 0).y())
    assert plot.controls.logs["y"].isEnabled()
    plot.show_traces([line("gain", [0.0, -1.0, -2.0, -3.0])])
    assert not plot.controls.logs["y"].isEnabled()
    assert "above 0" in plot.controls.logs["y"].toolTip()
    assert not plot.figure()[0].log_y
    plot.show_traces([line("bars", ROSE, width=4.0)])
    assert "Bars" in plot.controls.logs["y"].toolTip()


def test_a_series_is_switched_off_in_the_list_by_the_keyboard(qtbot, plot, qapp):
    qtbot.mouseClick(plot.controls.series, Qt.MouseButton.LeftButton)
    (opened,) = plot.findChildren(SeriesList)
    assert [opened.list.item(row).text() for row in range(opened.list.count())] == ["wina", "cats"]
    opened.list.setCurrentRow(1)
    qtbot.keyClick(opened.list, Qt.Key.Key_Space)
    qapp.processEvents()
    assert plot.hidden == {"cats"}
    assert plot.nearest(plot.place_of(1, 2)) != (1, 2)
    assert [series.name for series in plot.figure()[0].series] == ["wina"]
    assert plot.getPlotItem().vb.viewRange()[1][1] < 150.0, "the range follows what is left"
    qtbot.mouseClick(opened.all, Qt.MouseButton.LeftButton)
    assert not plot.hidden
    opened.close()


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


def test_the_button_resets_the_zoom_and_export_is_offered_once_there_is_one(qtbot, plot):
    box, exports = plot.getPlotItem().vb, []
    whole = box.viewRange()
    box.setRange(xRange=(20, 30), yRange=(2, 3), padding=0)
    qtbot.mouseClick(plot.controls.reset, Qt.MouseButton.LeftButton)
    box.updateAutoRange()
    assert np.allclose(box.viewRange(), whole)
    assert not plot.controls.export.isVisible()
    plot.controls.offer_export(lambda: exports.append(1))
    qtbot.mouseClick(plot.controls.export, Qt.MouseButton.LeftButton)
    assert exports == [1]


def test_controls_lie_above_the_plots_area_and_take_the_focus(plot):
    area = plot.mapFromScene(plot.getPlotItem().vb.sceneBoundingRect()).boundingRect()
    assert plot.controls.geometry().bottom() <= area.top() + 1
    assert plot.controls.geometry().right() <= plot.width()
    for button in (*plot.controls.logs.values(), plot.controls.series, plot.controls.reset):
        assert button.focusPolicy() & Qt.FocusPolicy.TabFocus
        assert button.accessibleName()
        assert button.toolTip()


def test_equal_lines_share_a_row_of_names_and_both_colours_show(plot, qapp):
    plot.show_traces([line("wina", ROSE), line("teal", ROSE, GREEN), line("cats", [5.0, 9.0, 30.0, 300.0], RED)])
    qapp.processEvents()
    assert "wina = teal" in plot._labels.texts()
    first, second, third = plot.figure()[0].series
    assert first.dashes == third.dashes == ()
    assert second.dashes
    image = plot.grab().toImage()
    for colour in (BLUE, GREEN):
        seen = sum(image.pixelColor(x, y) == colour for x in range(image.width()) for y in range(image.height()))
        assert seen > 30, colour.name()


def test_lines_that_a_zoom_tells_apart_are_named_apart(plot, qapp):
    plot.show_traces([line("wina", ROSE), line("teal", [1.001 * y for y in ROSE]), line("x", [1.0, 2.0, 3.0, 900.0])])
    qapp.processEvents()
    assert "wina ≈ teal" in plot._labels.texts()
    plot.getPlotItem().vb.setRange(xRange=(0, 70), yRange=(99.0, 101.0), padding=0)
    qapp.processEvents()
    assert {"wina", "teal"} <= set(plot._labels.texts())


def test_names_of_a_group_that_do_not_fit_in_a_row_keep_their_own(plot, qapp):
    names = [f"a configuration with a long name {n}" for n in range(4)]
    plot.show_traces([line(name, ROSE) for name in names])
    qapp.processEvents()
    assert len(plot._labels.texts()) == 4


def test_lines_coincide_whose_points_lie_elsewhere_on_the_same_way():
    x = np.array([0.0, 50.0, 100.0])
    finer = np.linspace(0.0, 100.0, 21)
    assert coinciding([(x, x), (finer, finer), None, (x, x + 30.0)], (0.2, 0.2))[0].members == (0, 1)
    assert coinciding([(x, x), (x[:2], x[:2])], (0.2, 0.2)) == (), "one ends before the other"


def test_each_line_of_a_group_shows_an_equal_part():
    period = sum(dashes(1, 3))
    view = [dashes(position, 3)[0] - (dashes(position + 1, 3)[0] if position < 2 else 0.0) for position in range(3)]
    assert view == pytest.approx([period / 3] * 3)
