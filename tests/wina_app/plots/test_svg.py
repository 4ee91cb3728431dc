"""Exported SVG: the same picture as the PNG, by means that simple renderers know."""

import math
from xml.etree import ElementTree

import numpy as np
import pytest
from PySide6.QtCore import QByteArray
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from wina_core.report.drawing.figure import LinePanel, MapPanel, Series, Style
from wina_core.report.drawing.renderer import render

STYLE = Style(7.0, 3.0)
X = (0.0, 25.0, 40.0, 50.0, 65.0)
LINES = LinePanel(
    "frontier", "target sparsity (%)", "perplexity ↓", (-3.0, 60.0), (5.0, 500.0),
    (
        Series("wina", "#56b4e9", X, (10, 10.1, 10.5, 12, 30), (9, 9.5, 10, 11, 25), (11, 10.7, 11, 13, 35), "o"),
        Series("teal", "#e78160", X, (10, 10.1, 10.5, 12, 30), marker="s", dashes=(4.0, 4.0)),
        Series("a <b> & $c$", "#aa449955", X, (10, 12, 15, 40, 300), marker="^", line="dashdot", hollow=True),
    ),
    (("dense", "#59616c", 9.0),),
    log_y=True,
)  # fmt: skip
MAP = MapPanel(
    "map", ("0", "1"), ("q", "down"), ((math.nan, 1.0), (2.0, 3.0)), (("", "1"), ("2", "3")), "energy", 0.0, 3.0,
    ("#440154", "#21918c", "#fde725"),
)  # fmt: skip


def pixels(image: QImage) -> np.ndarray:
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    shape = image.height(), image.width(), 4
    return np.frombuffer(image.constBits(), np.uint8).reshape(shape)[:, :, :3].astype(float)


@pytest.fixture(scope="module")
def drawn() -> tuple[bytes, np.ndarray]:
    return render((LINES, MAP), STYLE, "svg"), pixels(QImage.fromData(render((LINES, MAP), STYLE, "png", 96.0)))


@pytest.mark.usefixtures("qapp")
def test_qt_draws_it_as_the_png(drawn):
    svg, expected = drawn
    renderer = QSvgRenderer(QByteArray(svg))
    assert renderer.isValid()
    image = QImage(expected.shape[1], expected.shape[0], QImage.Format.Format_RGB32)
    image.fill(0xFFFFFFFF)
    with QPainter(image) as painter:
        renderer.render(painter)
    # Blocks of 8 x 8: letters and edges are smoothed differently.
    ours, theirs = (
        each[: each.shape[0] // 8 * 8].reshape(-1, 8, each.shape[1] // 8, 8, 3).mean(axis=(1, 3))
        for each in (pixels(image), expected)
    )
    assert np.abs(ours - theirs).mean() < 4.0
    assert np.abs(np.flip(ours, axis=1) - theirs).mean() > 20.0, "another picture differs more"


def test_properties_are_attributes_and_nothing_is_drawn_by_reference(drawn):
    root = ElementTree.fromstring(drawn[0])
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert not names & {"use", "style", "pattern", "image", "metadata"}
    for element in root.iter():
        assert "style" not in element.attrib
        assert not any("rgba" in value or "url(#h" in value for value in element.attrib.values())
        assert all(float(element.get(name, "1")) > 0 for name in ("stroke-opacity", "fill-opacity"))
    assert root.get("viewBox") == "0 0 504 216"
    assert (root.get("width"), root.get("height")) == ("504pt", "216pt")


def test_what_is_clipped_is_clipped_by_what_was_defined_before(drawn):
    seen: set[str] = set()
    used = 0
    for element in ElementTree.fromstring(drawn[0]).iter():
        if element.tag.endswith("clipPath"):
            seen.add(f"url(#{element.get('id')})")
        if "clip-path" in element.attrib:
            assert element.attrib["clip-path"] in seen
            used += 1
    assert used == 4, "three lines and an error bar end beyond the right edge"


def test_texts_are_texts_with_families_to_fall_back_on(drawn):
    texts = [element for element in ElementTree.fromstring(drawn[0]).iter() if element.tag.endswith("}text")]
    words = {"".join(text.itertext()) for text in texts}
    assert {"wina", "teal", "a <b> & $c$", "dense", "perplexity ↓", "map", "energy", "10", "100", "q", "down"} <= words
    for text in texts:
        assert text.get("font-family").endswith("sans-serif")
        assert text.get("stroke") == "none"
        assert float(text.get("font-size").removesuffix("px")) > 0
