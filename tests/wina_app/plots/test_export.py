"""Saved plots: the chosen size, format and appearance, the dialog that asks for them, and the clipboard."""

import numpy as np
import pytest
from PySide6.QtGui import QColor, QImage
from wina_app.plots.data_plot import DataPlot
from wina_app.plots.export import PlotExportDialog, ask_and_save
from wina_app.plots.figure import LastChoice, PlotFile, save_figure
from wina_app.plots.plot_items import Reference, Trace
from wina_app.style.theme import DARK, LIGHT, apply_theme, tokens
from wina_app.widgets.base_page import Page

from wina_core.errors import WinaError

CURVE, BARS = QColor("#d55e00"), QColor("#0072b2")
INCH = 25.4
SMALL = PlotFile(width=5 * INCH, height=3 * INCH, dpi=96)
"""The first drawing loads matplotlib."""


@pytest.fixture
def plot(qtbot, qapp):
    apply_theme(qapp, "light")
    widget = DataPlot("test plot")
    qtbot.addWidget(widget)
    widget.resize(500, 300)
    widget.set_axes("target sparsity (%)", "acc")
    teal = Trace("teal", CURVE, [25, 40, 65], [0.7, 0.65, 0.5], str, [0.01] * 3, "t1")
    bars = Trace("bars", BARS, [30, 50], [0.6, 0.55], str, width=4.0)
    widget.show_traces([teal, bars], [Reference("dense", QColor(tokens().dense), 0.72)])
    with qtbot.waitExposed(widget):
        widget.show()
    return widget


@pytest.fixture
def figure(plot):
    return plot.figure()


@pytest.fixture
def page(qtbot, qapp):
    apply_theme(qapp, "light")
    widget = Page("test", "Test")
    qtbot.addWidget(widget)
    return widget


def count(image: QImage, colour: QColor) -> int:
    """Return the number of pixels of nearly this colour."""
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.frombuffer(image.constBits(), np.uint8)
    bgr = pixels.reshape(image.height(), image.width(), 4)[:, :, :3].astype(int)
    distance = np.abs(bgr - [colour.blue(), colour.green(), colour.red()]).max(axis=2)
    return int((distance < 40).sum())


def test_the_figure_holds_all_that_is_shown(plot):
    plot.getPlotItem().vb.setRange(xRange=(20, 70), yRange=(0.0, 0.8), padding=0)
    (panel,) = plot.figure()
    assert (panel.title, panel.x_title, panel.y_title) == ("test plot", "target sparsity (%)", "acc")
    assert (panel.x_range, panel.y_range) == (pytest.approx((20, 70)), pytest.approx((0.0, 0.8)))
    teal, bars = panel.series
    assert teal.low == pytest.approx((0.69, 0.64, 0.49))
    assert (teal.marker, bars.width, bars.colour) == ("^", 4.0, BARS.name())
    assert panel.references == (("dense", LIGHT.dense, 0.72),)


def test_the_png_has_the_chosen_size_and_resolution_and_pens_to_match(figure, tmp_path):
    images = {}
    for dpi in (96, 288):
        path = tmp_path / f"{dpi}.png"
        save_figure(figure, path, SMALL.model_copy(update={"dpi": dpi}))
        images[dpi] = QImage(str(path))
        assert (images[dpi].width(), images[dpi].height()) == (5 * dpi, 3 * dpi)
        assert images[dpi].dotsPerMeterX() == pytest.approx(dpi / 0.0254, rel=0.01)
    for colour in (CURVE, BARS):
        assert count(images[288], colour) / count(images[96], colour) > 6, "three times as long and as wide"


def test_for_print_it_is_light_whatever_the_window_is(qapp, plot, tmp_path):
    apply_theme(qapp, "dark")
    plot.show_traces(plot.traces, [Reference("dense", QColor(DARK.dense), 0.72)])
    corners = {}
    for light in (True, False):
        path = tmp_path / f"{light}.png"
        save_figure(plot.figure(), path, SMALL.model_copy(update={"light": light}))
        corners[light] = QImage(str(path)).pixelColor(1, 1).name()
    assert corners == {True: LIGHT.surface, False: DARK.surface}
    save_figure(plot.figure(), tmp_path / "plot.svg", SMALL.model_copy(update={"format": "svg"}))
    assert DARK.text not in (tmp_path / "plot.svg").read_text()
    assert LIGHT.dense in (tmp_path / "plot.svg").read_text()


def test_the_dialog_saves_and_remembers(page, figure, qtbot, tmp_path):
    last = LastChoice()
    written = []
    last.keep({"format": "pdf", "width": 90.0, "height": 60.0, "dpi": 600, "light": False}, written.append)
    dialog = PlotExportDialog(figure, "frontier", last, page)
    assert dialog.choice() == PlotFile(format="pdf", width=90, height=60, dpi=600, light=False)
    assert not dialog.dpi.isEnabled()
    dialog.format.setCurrentIndex(0)
    dialog.width_box.setValue(100.0)
    assert dialog.pixels.text() == "2,362 x 1,417 pixels"
    with qtbot.waitSignal(dialog.saved) as saved:
        dialog.save_to(tmp_path / "frontier.png")
    assert saved.args == [tmp_path / "frontier.png"]
    assert (tmp_path / "frontier.png").is_file()
    assert written == [last.choice.model_dump()]
    assert last.choice.width == 100.0


def test_an_error_is_shown_in_the_dialog_which_stays(page, figure, qtbot, tmp_path):
    dialog = PlotExportDialog(figure, "frontier", LastChoice(), page)
    dialog.save_to(tmp_path / "missing" / "plot.png")
    qtbot.waitUntil(lambda: not dialog.trouble.isHidden())
    assert "folder does not exist" in dialog.trouble.text()
    dialog.close()
    with pytest.raises(WinaError, match="folder does not exist"):  # a script is written another way
        save_figure(figure, tmp_path / "missing" / "plot.py", SMALL.model_copy(update={"format": "py"}))


def test_the_dialog_is_not_modal(page, figure):
    ask_and_save(page, lambda: figure, "frontier")
    (dialog,) = page.findChildren(PlotExportDialog)
    assert not dialog.isModal()
    dialog.close()
    ask_and_save(page, lambda: (), "frontier")
    assert "nothing in this plot" in page.message.label.text()
