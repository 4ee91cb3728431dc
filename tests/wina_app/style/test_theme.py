"""The appearance reaches every pixel, in both modes, and can be read."""

import itertools

import numpy as np
import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QPlainTextEdit
from wina_app.plots.colour_maps import category
from wina_app.style import stylesheet, theme
from wina_app.style.icons import icon
from wina_app.widgets.base_page import Page

from wina_core.specs.methods import METHOD_COLOURS, method_names

TEXTS = ("text", "muted", "accent", "running", "done", "failed", "warning")
APART = 20
GROUNDS = ("surface", "window", "raised")
SRGB_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
PROTANOPIA = np.array([[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.052]])
DEUTERANOPIA = np.array([[0.3673, 0.8606, -0.228], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]])
TRITANOPIA = np.array([[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]])
"""On linear sRGB, severity 1 (Machado, Oliveira and Fernandes 2009, table 1)."""
USUAL = np.eye(3)
EYES = {"usual": USUAL, "protan": PROTANOPIA, "deutan": DEUTERANOPIA, "tritan": TRITANOPIA}


def test_every_text_colour_reads_on_every_ground():
    for tokens in (stylesheet.LIGHT, stylesheet.DARK):
        for text in TEXTS:
            for ground in GROUNDS:
                ratio = theme.contrast(QColor(getattr(tokens, text)), QColor(getattr(tokens, ground)))
                assert ratio >= 4.5, (tokens.dark, text, ground, ratio)
        for text, ground in (("on_accent", "accent"), ("text", "accent_soft"), ("text", "failed_soft")):
            assert theme.contrast(QColor(getattr(tokens, text)), QColor(getattr(tokens, ground))) >= 4.5


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_a_page_is_painted_in_the_tokens_colours(qtbot, qapp, mode):
    page = Page("x", "Title")
    page.set_content(QPlainTextEdit())
    page.set_primary("Do it")
    theme.apply_stylesheet(page)
    qtbot.addWidget(page)
    page.resize(600, 300)
    page.show()
    page.show_error("Something is wrong.")
    with qtbot.waitSignal(theme.notifier().changed):
        theme.apply_theme(qapp, mode)  # reaches what is shown already
    qapp.processEvents()
    image, tokens = page.grab().toImage(), theme.tokens()
    button = page.primary.geometry()
    assert image.pixelColor(button.left() + 6, button.center().y()) == QColor(tokens.accent)
    assert image.pixelColor(300, 10) == QColor(tokens.surface)
    assert image.pixelColor(300, 250) == QColor(tokens.surface)
    message = page.message.geometry()
    assert image.pixelColor(message.left() + 1, message.center().y()) == QColor(tokens.failed)
    assert image.pixelColor(message.center().x() + 100, message.top() + 2) == QColor(tokens.failed_soft)


def test_icons_take_the_colour_they_are_given(qapp):
    theme.apply_theme(qapp, "light")
    image = icon("running", "#ff0000").pixmap(48, 48).toImage()
    colours = {
        image.pixelColor(x, y).name() for x in range(48) for y in range(48) if image.pixelColor(x, y).alpha() == 255
    }
    assert colours == {"#ff0000"}


def test_every_registered_method_has_a_colour_of_its_own(qapp):
    for mode in ("light", "dark"):
        theme.apply_theme(qapp, mode)
        colours = [theme.method_colour(name).name() for name in method_names()]
        assert len(set(colours)) == len(colours)
        surface = QColor(theme.tokens().surface)
        for name in method_names():
            assert theme.contrast(theme.method_colour(name), surface) >= 1.9, name
    assert set(method_names()) - {"dense"} <= set(METHOD_COLOURS)
    assert theme.method_colour("wina") == QColor("#56B4E9"), "the colour of the paper"


@pytest.mark.parametrize("eye", EYES)
def test_colours_of_methods_and_of_projections_stay_apart_for_every_eye(eye):
    """In CIE L*a*b* (1976), where 2.3 is what can just be noticed. For tritan eyes the paper's own TEAL and R-Sparse
    come no further apart; projections have their names at their lines, and those of the MLP dashes too."""
    methods, projections = METHOD_COLOURS.values(), [category(index).name() for index in range(7)]
    for colours, apart in ((methods, 13 if eye == "tritan" else APART), (projections, 16)):
        seen = {colour: _lab(EYES[eye] @ _linear(QColor(colour))) for colour in colours}
        for one, other in itertools.combinations(seen, 2):
            assert np.linalg.norm(seen[one] - seen[other]) > apart, (one, other)


def _linear(colour: QColor) -> np.ndarray:
    c = np.array([colour.redF(), colour.greenF(), colour.blueF()])
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def _lab(linear: np.ndarray) -> np.ndarray:
    """CIE L*a*b* under D65 of linear sRGB."""
    xyz = SRGB_TO_XYZ @ np.clip(linear, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])
