"""Saved images: the SVG holds the curves as vectors, the PNG has the size that was asked for, failures are told."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer
from wina_app.theme import apply_theme
from wina_app.views.colour_maps import ColourScale, percent
from wina_app.views.data_plot import DataPlot, Trace
from wina_app.views.heatmap import Heatmap
from wina_app.views.plot_export import image_of, save_plot

from wina_core.errors import WinaError

CURVE = QColor("#d55e00")


@pytest.fixture
def plot(qtbot, qapp):
    apply_theme(qapp, "light")
    shown = DataPlot("test plot")
    qtbot.addWidget(shown)
    shown.resize(500, 300)
    shown.set_axes("target sparsity (%)", "acc")
    shown.show_traces([Trace("teal", CURVE, [25, 40, 65], [0.7, 0.65, 0.5], str, [0.01] * 3, "o")])
    with qtbot.waitExposed(shown):
        shown.show()
    qapp.processEvents()
    return shown


def count(image: QImage, colour: QColor) -> int:
    """Pixels of nearly this colour."""
    pixels = np.frombuffer(image.convertToFormat(QImage.Format.Format_RGB32).constBits(), np.uint8)
    bgr = pixels.reshape(image.height(), image.width(), 4)[:, :, :3].astype(int)
    distance = np.abs(bgr - [colour.blue(), colour.green(), colour.red()]).max(axis=2)
    return int((distance < 40).sum())


def test_the_png_has_the_chosen_scale_and_pens_to_match(plot, tmp_path):
    images = {}
    for scale in (1.0, 3.0):
        path = tmp_path / f"{scale}.png"
        save_plot(plot, path, scale)
        images[scale] = QImage(str(path))
        assert (images[scale].width(), images[scale].height()) == (500 * scale, 300 * scale)
    ratio = count(images[3.0], CURVE) / count(images[1.0], CURVE)
    assert ratio > 6, "lines three times as long and three times as wide"


def test_saving_leaves_the_plot_as_it_was(plot):
    before = plot.grab().toImage()
    image_of(plot, 3.0)
    assert plot.grab().toImage() == before


def test_the_svg_holds_curves_and_words_not_pictures(plot, tmp_path):
    path = tmp_path / "plot.svg"
    save_plot(plot, path)
    content = path.read_text()
    root = ElementTree.fromstring(content)
    assert root.attrib["viewBox"] == "0 0 500 300"
    assert "<image" not in content
    assert CURVE.name() in content
    assert "polyline" in content or "<path" in content
    words = "".join(root.itertext())
    for word in ("target sparsity (%)", "acc", "teal", "test plot"):
        assert word in words
    clips = set(re.findall(r'clip-path="url\(#([^)]+)\)"', content))
    assert clips, "a zoomed curve must end at the axes"
    assert clips <= set(re.findall(r'<clipPath id="([^"]+)"', content))


def test_the_svg_renders_back_to_what_was_shown(plot, tmp_path):
    path = tmp_path / "plot.svg"
    save_plot(plot, path)
    image = QImage(500, 300, QImage.Format.Format_RGB32)
    image.fill(QColor("white"))
    with QPainter(image) as painter:
        QSvgRenderer(str(path)).render(painter)
    shown = image_of(plot, 1.0)
    assert count(image, CURVE) == pytest.approx(count(shown, CURVE), rel=0.3)


def test_a_heatmap_is_saved_with_its_colours_and_values(qtbot, tmp_path):
    scale = ColourScale("Target sparsity", "%", 0.0, 1.0, percent)
    heatmap = Heatmap("map")
    qtbot.addWidget(heatmap)
    heatmap.set_table(["0", "1"], ["q", "k"])
    heatmap.set_values(np.array([[0.1, 0.3], [0.6, 0.9]]), scale)
    heatmap.resize(300, 200)
    heatmap.show()
    save_plot(heatmap, tmp_path / "map.svg")
    content = (tmp_path / "map.svg").read_text()
    words = "".join(ElementTree.fromstring(content).itertext())
    for value, text in ((0.1, "10"), (0.3, "30"), (0.6, "60"), (0.9, "90")):
        assert scale.colour(value).name() in content
        assert text in words
    image = image_of(heatmap, 2.0)
    assert count(image, scale.colour(0.9)) > 1000


def test_an_unknown_suffix_and_a_missing_folder_are_told(plot, tmp_path: Path):
    with pytest.raises(WinaError, match=r"ends in \.png or \.svg"):
        save_plot(plot, tmp_path / "plot.bmp")
    with pytest.raises(WinaError, match="folder does not exist"):
        save_plot(plot, tmp_path / "missing" / "plot.png")
