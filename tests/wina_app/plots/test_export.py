"""Saved plots: as many pixels as asked for, vectors with words, a page of its size, a program that draws them."""

import csv
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtGui import QColor, QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer
from wina_app.heatmap.heatmap import Heatmap
from wina_app.plots.colour_maps import ColourScale, percent
from wina_app.plots.data_plot import DataPlot, Reference, Trace
from wina_app.plots.export import ask_and_save, copy_image, save_figure
from wina_app.plots.export_dialog import PlotExportDialog
from wina_app.plots.export_settings import LastChoice, PlotFile
from wina_app.plots.figure import LinePanel, MapPanel, Series, recoloured
from wina_app.plots.matplotlib_script import data_of, script_of
from wina_app.style.palette import DARK, LIGHT
from wina_app.style.theme import apply_theme, tokens
from wina_app.widgets.base_page import Page

from wina_core.errors import WinaError

CURVE, BARS = QColor("#d55e00"), QColor("#0072b2")
INCH = 25.4
SMALL = PlotFile(width=5 * INCH, height=3 * INCH, dpi=96)


@pytest.fixture
def plot(qtbot, qapp):
    apply_theme(qapp, "light")
    shown = DataPlot("test plot")
    qtbot.addWidget(shown)
    shown.resize(500, 300)
    shown.set_axes("target sparsity (%)", "acc")
    teal = Trace("teal", CURVE, [25, 40, 65], [0.7, 0.65, 0.5], str, [0.01] * 3, "o")
    bars = Trace("bars", BARS, [30, 50], [0.6, 0.55], str, width=4.0)
    shown.show_traces([teal, bars], [Reference("dense", QColor(tokens().dense), 0.72)])
    with qtbot.waitExposed(shown):
        shown.show()
    qapp.processEvents()
    return shown


@pytest.fixture
def figure(plot):
    return plot.figure()


@pytest.fixture
def maps():
    """A map with a cell without data."""
    values = ((0.1, 0.3), (float("nan"), 0.9))
    return (MapPanel("a map", ("0", "1"), ("q", "k"), values, "Target sparsity", "%", 0.0, 1.0, percent, "viridis"),)


def count(image: QImage, colour: QColor) -> int:
    """Pixels of nearly this colour."""
    pixels = np.frombuffer(image.convertToFormat(QImage.Format.Format_RGB32).constBits(), np.uint8)
    bgr = pixels.reshape(image.height(), image.width(), 4)[:, :, :3].astype(int)
    distance = np.abs(bgr - [colour.blue(), colour.green(), colour.red()]).max(axis=2)
    return int((distance < 40).sum())


def words_of(path: Path) -> str:
    return "".join(ElementTree.fromstring(path.read_text()).itertext())


def drawn(path: Path) -> QImage:
    """What an SVG looks like."""
    renderer = QSvgRenderer(str(path))
    image = QImage(renderer.defaultSize(), QImage.Format.Format_RGB32)
    image.fill(QColor("white"))
    with QPainter(image) as painter:
        renderer.render(painter)
    return image


# ---- images and vectors ----------------------------------------------------------------------------------------


def test_the_figure_says_all_that_is_shown(plot):
    plot.getPlotItem().vb.setRange(xRange=(20, 70), yRange=(0.0, 0.8), padding=0)
    (panel,) = plot.figure()
    assert (panel.title, panel.x_title, panel.y_title) == ("test plot", "target sparsity (%)", "acc")
    assert (panel.x_range, panel.y_range) == (pytest.approx((20, 70)), pytest.approx((0.0, 0.8)))
    teal, bars = panel.series
    assert teal.low == pytest.approx((0.69, 0.64, 0.49))
    assert (bars.width, bars.colour) == (4.0, BARS.name())
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


def test_saving_leaves_the_plot_as_it_was(plot, tmp_path):
    before = plot.grab().toImage()
    save_figure(plot.figure(), tmp_path / "plot.png", SMALL)
    assert plot.grab().toImage() == before


def test_the_svg_holds_curves_and_words_not_pictures(figure, tmp_path):
    path = tmp_path / "plot.svg"
    save_figure(figure, path, SMALL.model_copy(update={"format": "svg"}))
    content = path.read_text()
    assert ElementTree.fromstring(content).attrib["viewBox"] == "0 0 480 288"
    assert "<image" not in content
    assert CURVE.name() in content
    for word in ("target sparsity (%)", "acc", "teal", "bars", "dense", "test plot"):
        assert word in words_of(path)
    clips = set(re.findall(r'clip-path="url\(#([^)]+)\)"', content))
    assert clips, "a zoomed curve must end at the axes"
    assert clips <= set(re.findall(r'<clipPath id="([^"]+)"', content))


def test_the_svg_renders_to_what_the_png_shows(figure, tmp_path):
    save_figure(figure, tmp_path / "plot.png", SMALL)
    save_figure(figure, tmp_path / "plot.svg", SMALL.model_copy(update={"format": "svg"}))
    png, svg = QImage(str(tmp_path / "plot.png")), drawn(tmp_path / "plot.svg")
    for colour in (CURVE, BARS):
        assert count(svg, colour) == pytest.approx(count(png, colour), rel=0.3)


def test_the_pdf_is_one_page_of_vectors_of_the_chosen_size(figure, tmp_path):
    path = tmp_path / "plot.pdf"
    whole = replace(figure[0], y_range=(0.0, 0.8))
    save_figure((whole,), path, SMALL.model_copy(update={"format": "pdf"}))
    content = path.read_bytes()
    assert content.startswith(b"%PDF")
    assert content.count(b"/Type /Page\n") == 1
    box = re.search(rb"/MediaBox \[\s*0 0 ([0-9.]+) ([0-9.]+)", content)
    assert [float(side) for side in box.groups()] == pytest.approx([5 * 72, 3 * 72], abs=1)
    assert b"/FontFile" in content, "words are text, in a font that is in the file"
    assert b"/Subtype /Image" not in content
    streams = re.findall(rb"stream\r?\n(.*?)endstream", content, re.S)
    page = max((_inflated(stream) for stream in streams), key=lambda text: text.count(b" l\n")).decode("latin-1")
    bars = re.findall(r"\n0 0\.447\d* 0\.698\d* scn\n(?:/GSa gs\n)?(?:/CSp.*?J 2 j.*?\n)?([0-9. ml\n]+)h\n", page, re.S)
    corners = [np.array(re.findall(r"([0-9.]+) ([0-9.]+) [ml]", bar), float) for bar in bars]
    heights = [np.ptp(corner[:, 1]) for corner in corners if np.ptp(corner[:, 1]) > 30]
    assert heights[0] / heights[1] == pytest.approx(0.6 / 0.55, rel=0.01), "at the scale of the page"
    assert max(corner.max() for corner in corners) < 480


def _inflated(stream: bytes) -> bytes:
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""


def test_for_print_it_is_light_however_the_window_looks(qapp, plot, tmp_path):
    apply_theme(qapp, "dark")
    plot.show_traces(plot.traces, [Reference("dense", QColor(DARK.dense), 0.72)])
    corners = {}
    for light in (True, False):
        path = tmp_path / f"{light}.png"
        save_figure(plot.figure(), path, SMALL.model_copy(update={"light": light}))
        corners[light] = QImage(str(path)).pixelColor(1, 1).name()
    assert corners == {True: LIGHT.surface, False: DARK.surface}
    assert tokens() is DARK or tokens().dark, "the window stays dark"
    save_figure(plot.figure(), tmp_path / "plot.svg", SMALL.model_copy(update={"format": "svg"}))
    assert DARK.text not in (tmp_path / "plot.svg").read_text()
    assert LIGHT.dense in (tmp_path / "plot.svg").read_text()


def test_opacity_stays_where_colours_change():
    panel = LinePanel("", "", "", (0, 1), (0, 1), (Series("a", "#a3abb680", (0.0,), (1.0,)),))
    (changed,) = recoloured((panel,), {"#a3abb6": "#59616c"})
    assert changed.series[0].colour == "#59616c80"


def test_a_heatmap_is_saved_with_its_colours_and_values(qtbot, tmp_path):
    scale = ColourScale("Target sparsity", "%", 0.0, 1.0, percent)
    heatmap = Heatmap("map")
    qtbot.addWidget(heatmap)
    assert heatmap.figure() == ()
    heatmap.set_table(["0", "1"], ["q", "k"])
    heatmap.set_values(np.array([[0.1, 0.3], [0.6, 0.9]]), scale)
    save_figure(heatmap.figure(), tmp_path / "map.svg", SMALL.model_copy(update={"format": "svg"}))
    content = (tmp_path / "map.svg").read_text()
    for value, text in ((0.1, "10"), (0.3, "30"), (0.6, "60"), (0.9, "90")):
        assert scale.colour(value).name() in content
        assert text in words_of(tmp_path / "map.svg")
    save_figure(heatmap.figure(), tmp_path / "map.png", SMALL)
    assert count(QImage(str(tmp_path / "map.png")), scale.colour(0.9)) > 1000


def test_a_map_that_does_not_fit_is_saved_whole(tmp_path, maps):
    rows = tuple(str(row) for row in range(80))
    tall = (replace(maps[0], rows=rows, values=((0.1, 0.3),) * 79 + ((0.5, 0.9),)),)
    save_figure(tall * 2, tmp_path / "map.svg", SMALL.model_copy(update={"format": "svg"}))
    assert words_of(tmp_path / "map.svg").count("79") == 2, "the last layer of both"
    assert words_of(tmp_path / "map.svg").count("90") >= 2
    save_figure(tall, tmp_path / "map.png", SMALL)
    assert QImage(str(tmp_path / "map.png")).width() == 480


def test_an_image_is_copied_in_the_windows_colours(figure, plot):
    copy_image(figure, plot.size())
    image = QGuiApplication.clipboard().image()
    assert image.width() == 3 * plot.width()
    assert count(image, CURVE) > 100


def test_a_folder_that_is_not_there_is_told(figure, tmp_path):
    for suffix in ("png", "svg", "pdf", "py"):
        with pytest.raises(WinaError, match="folder does not exist"):
            save_figure(figure, tmp_path / "missing" / f"plot.{suffix}", SMALL.model_copy(update={"format": suffix}))


# ---- scripts ---------------------------------------------------------------------------------------------------


def test_the_data_hold_every_digit(figure, maps):
    rows = list(csv.DictReader(data_of(figure).splitlines()))
    assert [float(row["x"]) for row in rows if row["name"] == "teal"] == [25.0, 40.0, 65.0]
    assert [row["low"] for row in rows if row["name"] == "bars"] == ["", ""]
    cells = list(csv.DictReader(data_of(maps).splitlines()))
    assert [(cell["name"], cell["low"], cell["text"]) for cell in cells] == [
        ("0 q", "10.0", "10"), ("0 k", "30.0", "30"), ("1 q", "", ""), ("1 k", "90.0", "90")
    ]  # fmt: skip


def test_texts_are_never_more_than_texts():
    name = "'''; raise SystemExit(1)\n\"\"\" {__import__('os')} \\"
    panel = LinePanel(name, name, name, (0.0, 1.0), (0.0, 1.0), (Series(name, "#000000", (0.5,), (0.5,)),))
    script = script_of((panel,), "data.csv", 100.0, 100.0, {})
    compile(script, "plot.py", "exec")
    found: dict[str, object] = {}
    (told,) = re.findall(r"^PANELS = .*?(?=\n\n)", script, re.S | re.M)
    exec(told, {"__builtins__": {}}, found)  # literals need no names at all
    assert found["PANELS"][0]["title"] == name


def test_a_script_draws_formulas_as_texts_and_maps_without_numbers(tmp_path):
    pytest.importorskip("matplotlib")
    name, unknown = "$x^$ of 100 % _", float("nan")
    line = LinePanel(name, name, name, (0.0, 1.0), (0.0, 1.0), (Series(name, "#000000", (0.5,), (0.5,)),))
    empty = MapPanel(name, (name,), (name,), ((unknown,),), name, "", unknown, unknown, percent, "viridis")
    file = tmp_path / "plot.py"
    save_figure((line, empty), file, SMALL.model_copy(update={"format": "py"}))
    subprocess.run([sys.executable, file], check=True)
    assert file.with_suffix(".png").is_file()


def test_the_script_draws_the_same_plot(figure, maps, tmp_path):
    pytest.importorskip("matplotlib")
    folder = tmp_path / "a folder"
    folder.mkdir()
    save_figure((*figure, *maps), folder / "plot.py", SMALL.model_copy(update={"format": "py"}))
    environment = {**os.environ, "MPLCONFIGDIR": str(tmp_path / "matplotlib")}
    done = subprocess.run(
        [sys.executable, "a folder/plot.py", "figure.svg"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    content = (tmp_path / "figure.svg").read_text()
    for word in ("target sparsity (%)", "acc", "teal", "bars", "dense", "a map", "Target sparsity (%)", "90"):
        assert word in content
    assert CURVE.name() in content
    assert BARS.name() in content


# ---- the dialog ------------------------------------------------------------------------------------------------


@pytest.fixture
def page(qtbot, qapp):
    apply_theme(qapp, "light")
    shown = Page("test", "Test")
    qtbot.addWidget(shown)
    return shown


def test_the_dialog_shows_what_it_will_be_and_remembers(page, figure, qtbot, tmp_path):
    last = LastChoice()
    written = []
    last.keep({"format": "pdf", "width": 90.0, "height": 60.0, "dpi": 600, "light": False}, written.append)
    dialog = PlotExportDialog(figure, "frontier", last, page)
    assert dialog.choice() == PlotFile(format="pdf", width=90, height=60, dpi=600, light=False)
    assert not dialog.dpi.isEnabled()
    assert "no pixels" in dialog.dpi.toolTip()
    dialog.format.setCurrentIndex(0)
    dialog.width_box.setValue(100.0)
    assert dialog.pixels.text() == "2,362 x 1,417 pixels"
    qtbot.waitUntil(lambda: dialog.picture.pixmap().width() > dialog.picture.pixmap().height())
    with qtbot.waitSignal(dialog.saved) as saved:
        dialog.save_to(tmp_path / "frontier.png")
    assert saved.args == [str(tmp_path / "frontier.png")]
    assert (tmp_path / "frontier.png").is_file()
    assert last.choice.width == 100.0
    assert written == [last.choice.model_dump()]


def test_what_goes_wrong_is_told_in_the_dialog_which_stays(page, figure, qtbot, tmp_path):
    dialog = PlotExportDialog(figure, "frontier", LastChoice(), page)
    dialog.save_to(tmp_path / "missing" / "plot.png")
    qtbot.waitUntil(lambda: bool(dialog.trouble.text()))
    assert "folder does not exist" in dialog.trouble.text()
    assert not dialog.trouble.isHidden()
    dialog.close()


def test_data_of_another_kind_are_not_replaced(figure, tmp_path):
    choice = SMALL.model_copy(update={"format": "py"})
    (tmp_path / "runs.csv").write_text("mine")
    with pytest.raises(WinaError, match=r"runs.csv.* is there already; choose another name"):
        save_figure(figure, tmp_path / "runs.py", choice)
    assert (tmp_path / "runs.csv").read_text() == "mine"
    assert not (tmp_path / "runs.py").exists()
    for _ in range(2):  # its own are
        save_figure(figure, tmp_path / "plot.py", choice)


def test_an_earlier_choice_that_makes_no_sense_is_passed_over():
    last = LastChoice()
    last.keep({"format": "bmp", "width": -3}, lambda _: None)
    assert last.choice == PlotFile()


def test_the_dialog_keeps_nothing_else_waiting(page, figure):
    ask_and_save(page, lambda: figure, "frontier")
    (dialog,) = page.findChildren(PlotExportDialog)
    assert not dialog.isModal()
    dialog.close()
    ask_and_save(page, lambda: (), "frontier")
    assert "nothing in this plot" in page.message.label.text()
