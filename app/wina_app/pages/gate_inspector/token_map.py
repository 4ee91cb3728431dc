"""Map of kept inputs: tokens by neurons."""

import math

import numpy as np
import pyqtgraph as pg
from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QColor

from wina_app.pages.gate_inspector.plots import input_text
from wina_app.pages.gate_inspector.points import order
from wina_app.pages.gate_inspector.view_state import PlannedGate
from wina_app.plots.colour_maps import ColourScale, percent
from wina_app.plots.data_plot import DataPlot
from wina_app.plots.figure import map_figure
from wina_app.style.theme import GRID, method_colour, tokens
from wina_app.style.translation import tr
from wina_core.analysis.gate_views import InspectedCell
from wina_core.report.drawing import Figure

_LINE = 14
"""Pixels between two tokens' texts."""
_GROUPS = 32
"""Columns of an exported map, each a group of inputs."""
_TEXT = 9
"""Letters of a token beside the map."""


class TokenAxis(pg.AxisItem):
    """Axis with as many tokens' texts as fit."""

    words: tuple[str, ...] = ()

    def tickValues(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, list[float]]]:
        """Return (spacing, middles of rows)."""
        low, high = sorted((minVal, maxVal))
        step = max(1, math.ceil((high - low) * _LINE / max(size, 1.0)))
        first, last = max(0, math.floor(low)), min(len(self.words), math.ceil(high))
        return [(float(step), [row + 0.5 for row in range(first, last) if row % step == 0])]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: ARG002 - pyqtgraph gives them
        """Return the tokens' texts."""
        return [_shortened(self.words[int(value)]) for value in values]


def _shortened(text: str) -> str:
    line = text.replace("\n", "⏎").strip() or "␣"
    return line if len(line) <= _TEXT else line[: _TEXT - 1] + "…"


class GateMap(DataPlot):
    """Kept inputs in the method's colour; the strength is the kept share per pixel."""

    picked = Signal(int, int)
    """Token and neuron of the clicked place."""
    _subject: tuple[InspectedCell, PlannedGate] | None = None
    _focus_lines: tuple[pg.InfiniteLine, ...] = ()

    def __init__(self) -> None:
        super().__init__(tr("Mask of tokens by inputs"), log_axes="")
        self._order = np.empty(0, dtype=np.int64)
        plot = self.getPlotItem()
        self._words = TokenAxis(orientation="left")
        plot.setAxisItems({"left": self._words})
        self._words.setWidth(10 * GRID)
        self._words.enableAutoSIPrefix(False)
        plot.vb.invertY(True)
        plot.vb.setDefaultPadding(0.0)
        self._image = pg.ImageItem(axisOrder="row-major")
        self._image.setAutoDownsample(True)
        self._image.setZValue(-5)
        plot.addItem(self._image)
        self._focus_lines = pg.InfiniteLine(angle=90), pg.InfiniteLine(angle=0)
        for line in self._focus_lines:
            line.setZValue(12)
            line.hide()
            plot.addItem(line, ignoreBounds=True)
        self._restyle()

    def show_mask(self, cell: InspectedCell, current: PlannedGate, by: str) -> None:
        """Draw a mask, its inputs in order of "index", "norm" or "kept"."""
        fresh = self._subject is None or self._subject[0] is not cell
        self._subject = cell, current
        self._order = order(cell, current, by)
        self._words.words = cell.record.tokens
        names = {
            "index": tr("input"),
            "norm": tr("inputs by norm"),
            "kept": tr("inputs by share kept"),
        }
        self.set_axes(names[by], tr("token"))
        tokens_, inputs = current.mask.shape
        self.getPlotItem().vb.setLimits(xMin=0, xMax=inputs, yMin=0, yMax=tokens_, minXRange=8, minYRange=2)
        for side in ("left", "bottom"):
            self.getPlotItem().getAxis(side).setStyle(showValues=True)
        self.getPlotItem().showGrid(x=False, y=False)
        self._image.setImage(current.mask[:, self._order].astype(np.float32), levels=(0.0, 1.0))
        self._colour()
        if fresh:
            self.reset_zoom()

    def figure(self) -> Figure:
        """Return the figure: the kept share of tokens by groups of inputs."""
        if self._subject is None:
            return ()
        mask = self._subject[1].mask
        groups = np.array_split(self._order, min(_GROUPS, mask.shape[1]))
        starts = np.cumsum([0, *map(len, groups[:-1])])
        kept_shares = np.stack([mask[:, group].mean(axis=1) for group in groups], axis=1)
        words = [_shortened(word) for word in self._subject[0].record.tokens]
        scale = ColourScale(tr("Kept share"), "%", 0.0, 1.0, percent)
        return map_figure(self.accessibleName(), words, [str(start) for start in starts], kept_shares, scale)

    def mark_input(self, token: int, neuron: int) -> None:
        """Cross lines at an input."""
        if self._subject is not None:
            column = int(np.flatnonzero(self._order == neuron)[0])
            for line, position in zip(self._focus_lines, (column + 0.5, token + 0.5), strict=True):
                line.setPos(position)
                line.show()

    def unmark(self) -> None:
        """Remove the mark."""
        for line in self._focus_lines:
            line.hide()

    def _colour(self) -> None:
        if self._subject is not None:
            low, high = QColor(tokens().raised), method_colour(self._subject[1].method.name)
            ends = np.array([[low.red(), low.green(), low.blue()], [high.red(), high.green(), high.blue()]])
            steps = np.linspace(0.0, 1.0, 256)[:, None]
            self._image.setLookupTable((ends[0] + steps * (ends[1] - ends[0])).round().astype(np.uint8))

    def _restyle(self) -> None:
        super()._restyle()
        self.getPlotItem().showGrid(x=False, y=False)
        for line in self._focus_lines:
            line.setPen(pg.mkPen(tokens().text, width=1, style=Qt.PenStyle.DashLine))
        self._colour()

    def _draw(self) -> None:
        super()._draw()
        for side in ("left", "bottom"):
            self.getPlotItem().getAxis(side).setStyle(showValues=True)

    def input_at(self, scene: QPointF) -> tuple[int, int] | None:
        """Return (token, neuron) at a position in the scene; None beside the map."""
        box = self.getPlotItem().vb
        if self._subject is None or not box.sceneBoundingRect().contains(scene):
            return None
        at = box.mapSceneToView(scene)
        token, column = math.floor(at.y()), math.floor(at.x())
        rows, columns = self._subject[1].mask.shape
        if not (0 <= token < rows and 0 <= column < columns):
            return None
        return token, int(self._order[column])

    def _pointer_moved(self, scene: QPointF) -> None:
        target = self.input_at(scene)
        if target is None or self._subject is None:
            self._hide_crosshair()
        else:
            self.readout_changed.emit(input_text(*self._subject, *target))

    def _clicked(self, event: MouseClickEvent) -> None:
        target = self.input_at(event.scenePos())
        if event.double() or target is None:
            super()._clicked(event)
        else:
            self.picked.emit(*target)
