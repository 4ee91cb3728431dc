"""What is really painted, in both themes: texts that can be read, outlines that can be seen, colours that follow."""

from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QLabel, QWidget
from wina_app.heatmap.heatmap import Heatmap
from wina_app.pages import PAGES
from wina_app.plots.data_plot import DataPlot
from wina_app.services.settings import Preferences
from wina_app.style import stylesheet, theme
from wina_app.window.main_window import MainWindow

from tests.wina_app.tour import every_page, furnish, settle
from wina_core.specs.methods import METHOD_COLOURS

pytestmark = pytest.mark.all_pages

THEMES = ("light", "dark")
READABLE = 4.5
"""Contrast that WCAG asks of texts; of outlines it asks VISIBLE."""
VISIBLE = 3.0
_SCALE = 3
"""Device pixels for each of the window's: the strokes of small letters are wide enough to have their full colour."""
_LIGHT_GROUNDS = ("window", "surface", "raised", "accent_soft", "failed_soft", "line", "grid")


@pytest.fixture
def window(application):
    """Furnished; the appearance is the usual one again afterwards."""
    furnish(application)
    yield application.window
    application.window.apply_preferences(Preferences())


def _pixels(widget: QWidget, scale: int = 1) -> np.ndarray:
    """uint8 RGB [height, width, 3] of a widget with all that lies in it."""
    image = QImage(widget.size() * scale, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    QWidget.render(widget, image, QPoint(0, 0))  # a graphics view has another of its own
    rows = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.bytesPerLine() // 4, 4)
    return rows[:, : image.width(), 2::-1].copy()


def _packed(pixels: np.ndarray) -> np.ndarray:
    """One number for each colour."""
    return pixels.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)


def _colour(packed: int) -> QColor:
    return QColor.fromRgb(int(packed))


def _share(pixels: np.ndarray, colour: str) -> float:
    return float((_packed(pixels) == int(colour.lstrip("#"), 16)).mean())


def _contrast(area: np.ndarray) -> float:
    """Between the most frequent colour and the one that differs most from it."""
    colours, counts = np.unique(_packed(area), return_counts=True)
    ground = _colour(colours[counts.argmax()])
    lightness = area.reshape(-1, 3).astype(int).sum(axis=1)
    ends = (area.reshape(-1, 3)[lightness.argmin()], area.reshape(-1, 3)[lightness.argmax()])
    return max(theme.contrast(QColor(*map(int, end)), ground) for end in ends)


def _labels(root: QWidget) -> Iterator[tuple[QLabel, QRect]]:
    """Enabled labels with text, and what is in sight of each."""
    for label in root.findChildren(QLabel):
        if label.isVisible() and label.isEnabled() and label.text().strip():
            seen = label.visibleRegion().boundingRect()
            if seen == label.rect():
                yield label, QRect(label.mapTo(root, QPoint(0, 0)), label.size())


@pytest.mark.parametrize(
    "pages", [{"results"}, pytest.param(set(PAGES), marks=pytest.mark.nightly)], ids=["one", "all"]
)
def test_labels_can_be_read_outlines_stand_out_and_nothing_keeps_the_light_themes_colours(window, pages):
    faint, kept = [], []
    for mode in THEMES:  # all pages were shown in the light one before the switch
        window.set_theme(mode)
        for key in every_page(window):
            if key not in pages:
                continue
            painted = _pixels(window, _SCALE)
            for label, place in _labels(window):
                if (contrast := _contrast(_part(painted, place))) < READABLE:
                    faint.append(f"{key}, {mode}: {label.text()[:40]!r} {contrast:.2f}")
            if mode == "dark":
                kept += [f"{key}: {fault}" for fault in _light_grounds(_pixels(window))]
        window.show_page("sparsity")
        _check_the_selected_cell(window.pages["sparsity"].heatmap)
        window.show_page("results")
        _check_the_plot(window, window.pages["results"].plots.frontier.plot)
    assert not faint, "\n".join(faint)
    assert not kept, "\n".join(kept)


def _light_grounds(painted: np.ndarray) -> Iterator[str]:
    for name in _LIGHT_GROUNDS:
        share = _share(painted, getattr(stylesheet.LIGHT, name))
        if share > 0.002:  # a letter in a cell may be white
            yield f"{name} on {100 * share:.1f} %"
    if _share(painted, stylesheet.DARK.surface) <= 0.2:
        yield "hardly any dark surface"


def _part(painted: np.ndarray, place: QRect) -> np.ndarray:
    rows, columns = ((first * _SCALE, (last + 1) * _SCALE) for first, last in (
        (place.top(), place.bottom()), (place.left(), place.right()),
    ))  # fmt: skip
    return painted[slice(*rows), slice(*columns)]


def _check_the_selected_cell(heatmap: Heatmap) -> None:
    heatmap.set_selection(heatmap.selection.none())
    settle()
    before = _pixels(heatmap.viewport())
    heatmap.set_selection(heatmap.selection.click((2, 3)))
    settle()
    after = _pixels(heatmap.viewport())
    rows, columns = np.nonzero((before != after).any(axis=2))
    seen = [
        theme.contrast(*(QColor(*map(int, image[row, column])) for image in (before, after))) >= VISIBLE
        for row, column in zip(rows, columns, strict=True)
    ]
    assert sum(seen) >= 100, "as long as the cell's upper and lower edge"
    middle, beside = before.shape[0] // 2, before.shape[1] // 2
    assert _contrast(_pixels(heatmap.viewport(), _SCALE)[_SCALE * middle - 60 : _SCALE * middle + 60, _SCALE * beside :]
                     ) >= READABLE  # fmt: skip


def _check_the_plot(window: MainWindow, plot: DataPlot) -> None:
    settle()
    painted = _pixels(plot, _SCALE)
    for method in ("wina", "teal"):
        assert _share(painted, METHOD_COLOURS[method]) > 0.0005, method
    assert _share(painted, theme.tokens().surface) > 0.5
    window.activateWindow()
    plot.setFocus()
    settle()
    edge = _pixels(plot)[0]
    outline = QColor(*map(int, edge[len(edge) // 2]))
    assert theme.contrast(outline, QColor(theme.tokens().surface)) >= VISIBLE, "it has the keyboard"
