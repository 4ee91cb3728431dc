"""Jagged lines are painted in pieces, which look like the line they are of."""

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage
from wina_app.plots import plot_items
from wina_app.plots.data_plot import DataPlot
from wina_app.plots.plot_items import Trace, pieces


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [([4.0, 2.0], [[0, 0, 3, 0], [3, 0, 3, 1], [3, 3, 3, 7]]), ([], [[0, 0, 3, 0], [3, 0, 3, 9]])],
)
def test_a_line_is_cut_at_its_corners_and_gaps(pattern, expected):
    x, y = np.array([0.0, 3.0, 3.0]), np.array([0.0, 0.0, 9.0])
    assert pieces(x, y, np.array(pattern)).tolist() == expected


@pytest.mark.parametrize("style", [Qt.PenStyle.SolidLine, Qt.PenStyle.DashLine])
def test_pieces_look_like_the_whole_line(qtbot, monkeypatch, style):
    painted = _follow(monkeypatch)
    x = np.arange(20.0)
    y = 50 + 40 * (-1) ** x
    in_pieces = _coverage(_plot(qtbot, x, y, style))
    assert painted[-1] >= 19
    monkeypatch.setattr(plot_items, "_JAGGED", np.inf)
    monkeypatch.setattr(plot_items, "_LONG", np.inf)
    whole = _coverage(_plot(qtbot, x, y, style))
    assert painted[-1] == 0
    assert whole.sum() > 1000
    assert in_pieces.sum() == pytest.approx(whole.sum(), rel=0.05)
    assert np.abs(in_pieces - whole).sum() < 0.15 * whole.sum()


def test_a_line_that_goes_up_and_down_by_many_pixels_is_painted_in_pieces(qtbot, monkeypatch):
    painted = _follow(monkeypatch)
    x = np.arange(20.0)
    y = 50 + 10 * (-1) ** x
    _coverage(_plot(qtbot, x, y, Qt.PenStyle.SolidLine))
    assert painted[-1] == 0
    monkeypatch.setattr(plot_items, "_LONG", 100.0)
    _coverage(_plot(qtbot, x, y, Qt.PenStyle.SolidLine))
    assert painted[-1] == 19


def test_lines_that_are_smooth_or_have_gaps_are_painted_whole(qtbot, monkeypatch):
    painted = _follow(monkeypatch)
    x = np.arange(20.0)
    for y in (5 * x, np.where(x == 7, np.nan, 50 + 40 * (-1) ** x)):
        _coverage(_plot(qtbot, x, y, Qt.PenStyle.SolidLine))
    assert set(painted) == {0}


def _follow(monkeypatch) -> list[int]:
    """In how many pieces each painting of a line is."""
    painted, made = [], plot_items._Curve._pieces

    def follow(*arguments):
        cut = made(*arguments)
        painted.append(0 if cut is None else len(cut))
        return cut

    monkeypatch.setattr(plot_items._Curve, "_pieces", follow)
    return painted


def _plot(qtbot, x, y, style) -> DataPlot:
    plot = DataPlot("a line")
    qtbot.addWidget(plot)
    plot.resize(400, 300)
    plot.show_traces([Trace("line", QColor("#0072b2"), x, y, None, style=style, named=False)])
    plot.getPlotItem().vb.setRange(xRange=(0, 19), yRange=(0, 100), padding=0)
    plot.show()
    return plot


def _coverage(plot: DataPlot) -> np.ndarray:
    """How blue each pixel is, from 0 to 1."""
    image = plot.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.frombuffer(image.constBits(), dtype=np.uint8).reshape(image.height(), -1, 4)[..., :3].astype(float)
    return np.clip((pixels[..., 0] - pixels[..., 2]) / 178, 0, 1)
