"""Plots of the gate inspector: scatter, histogram, and the map of tokens by inputs."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyqtgraph as pg
from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QColor

from wina_app.pages.gate_inspector.view_state import (
    PlannedGate,
    Points,
    boundaries,
    finite,
    logs,
    order,
    points,
    rows,
    weights,
)
from wina_app.plots.axes import LogAxis
from wina_app.plots.colour_maps import ColourScale, percent
from wina_app.plots.data_plot import DataPlot
from wina_app.plots.figure import map_figure
from wina_app.plots.plot_items import Trace
from wina_app.style.theme import GRID, method_colour, tokens
from wina_core.analysis.gate_views import InspectedCell
from wina_core.records.gates import Scored
from wina_core.report.drawing import Figure, LinePanel

MAGNITUDES: dict[Scored, str] = {"input": "|x|", "distance": "|x − mode|", "activation": "|act(W_gate x)|"}
_BINS = 40
_SMALL = 5
"""Pixels of a marker among thousands."""
_STYLES = (Qt.PenStyle.SolidLine, Qt.PenStyle.DashLine, Qt.PenStyle.DotLine, Qt.PenStyle.DashDotLine)
"""Line styles that distinguish variants of a method."""


class GatePlot(DataPlot):
    """Plot with axes in powers of ten, and one marked input."""

    picked = Signal(int, int)
    """Token and neuron of the clicked input."""
    _focus: pg.ScatterPlotItem | None = None

    def __init__(self, name: str, *, log_y: bool) -> None:
        super().__init__(name, log_axes="")
        self._log_y = log_y
        plot = self.getPlotItem()
        sides = ("bottom", "left") if log_y else ("bottom",)
        plot.setAxisItems({side: LogAxis(orientation=side) for side in sides})
        plot.getAxis("left").setWidth(7 * GRID)
        for side in sides:
            plot.getAxis(side).enableAutoSIPrefix(False)
        self._focus = pg.ScatterPlotItem(size=14, brush=None, symbol="s")
        self._focus.setZValue(15)
        plot.addItem(self._focus, ignoreBounds=True)
        self._restyle()

    def _restyle(self) -> None:
        super()._restyle()
        if self._focus is not None:  # the base styles itself before there is one
            self._focus.setPen(pg.mkPen(tokens().text, width=2))
            self.redraw()

    def redraw(self) -> None:
        """Draw again in the current colours."""

    def unmark(self) -> None:
        if self._focus is not None:
            self._focus.setData([], [])

    def figure(self) -> Figure:
        """Return the figure, its axes named as powers of ten."""
        (panel,) = super().figure()
        assert isinstance(panel, LinePanel)
        y_title = f"log10 {panel.y_title}" if self._log_y else panel.y_title
        return (replace(panel, x_title=f"log10 {panel.x_title}", y_title=y_title),)


class GateScatter(GatePlot):
    """Scatter of inputs by magnitude and weight, with each method's boundary."""

    _subject: tuple[InspectedCell, tuple[PlannedGate, ...], PlannedGate, int | None] | None = None
    _points: Points | None = None

    def __init__(self) -> None:
        super().__init__("Magnitude against column norm, with each method's boundary", log_y=True)

    def show_gates(
        self, cell: InspectedCell, gates: Sequence[PlannedGate], current: PlannedGate, token: int | None
    ) -> None:
        """Draw the inputs of one token or of all, coloured by one method."""
        fresh = self._subject is None or (self._subject[0], self._subject[3]) != (cell, token)
        self._subject = cell, tuple(gates), current, token
        scale = f"c of {current.method.label}" if current.gate.scale is not None else "column norm c"
        self.set_axes(_magnitude(cell, current), scale, 0.1)
        self.redraw()
        if fresh:  # another method or target keeps the user's zoom
            self.reset_zoom()

    @property
    def drawn(self) -> tuple[int, int] | None:
        """Return the numbers of drawn and of all inputs; None if all are drawn."""
        sample = self._points
        return None if sample is None or len(sample.x) == sample.total else (len(sample.x), sample.total)

    def redraw(self) -> None:
        """Draw points and boundaries."""
        if self._subject is None:
            return
        cell, gates, current, token = self._subject
        self._points = drawn_points = points(cell, current, token)
        self.show_traces(
            [
                self._cloud(drawn_points, ~drawn_points.kept_mask, "dropped", QColor(tokens().muted), "x"),
                self._cloud(drawn_points, drawn_points.kept_mask, "kept", method_colour(current.method.name), "o"),
                *self._boundaries(cell, gates, current, token),
            ]
        )

    def _cloud(self, inputs: Points, chosen: np.ndarray, word: str, colour: QColor, symbol: str) -> Trace:
        indices = np.flatnonzero(chosen)

        def readout(index: int) -> str:
            assert self._subject is not None  # there are points
            cell, _, current, _ = self._subject
            return input_text(cell, current, int(inputs.token[indices[index]]), int(inputs.neuron[indices[index]]))

        return Trace(
            word, colour, inputs.x[indices].tolist(), inputs.y[indices].tolist(), readout, symbol=symbol,
            style=Qt.PenStyle.NoPen, named=False, size=_SMALL,
        )  # fmt: skip

    def _boundaries(
        self, cell: InspectedCell, gates: tuple[PlannedGate, ...], current: PlannedGate, token: int | None
    ) -> list[Trace]:
        traces, seen = [], dict[str, int]()
        for planned, x, y in boundaries(cell, gates, current, token):
            name = planned.method.name
            style = _STYLES[seen.setdefault(name, 0) % len(_STYLES)]
            seen[name] += 1
            traces.append(Trace(planned.method.label, method_colour(name), x, y, None, style=style))
        return traces

    def mark_input(self, token: int, neuron: int) -> None:
        """Put a square around an input."""
        if self._subject is not None and self._focus is not None:
            cell, _, current, _ = self._subject
            x = logs(current.gate.magnitudes[token])[neuron]
            self._focus.setData([x], [logs(weights(cell, current))[neuron]])

    def _clicked(self, event: MouseClickEvent) -> None:
        caught = self.nearest(event.scenePos())
        # Traces beyond the first two, dropped and kept inputs, are boundaries.
        if event.double() or caught is None or self._points is None or caught[0] > 1:
            super()._clicked(event)
            return
        chosen = self._points.kept_mask if caught[0] else ~self._points.kept_mask
        index = np.flatnonzero(chosen)[caught[1]]
        self.picked.emit(int(self._points.token[index]), int(self._points.neuron[index]))


class GateHistogram(GatePlot):
    """Histogram of one method's scores, kept and dropped, with its threshold."""

    _subject: tuple[PlannedGate, int | None] | None = None

    def __init__(self) -> None:
        super().__init__("Histogram of scores with the threshold", log_y=False)
        self._line = pg.InfiniteLine(angle=90)
        self._line.setZValue(12)
        self.getPlotItem().addItem(self._line, ignoreBounds=True)
        self._line.hide()

    def show_scores(self, current: PlannedGate, token: int | None) -> None:
        """Draw the scores of one token or of all."""
        self._subject = current, token
        magnitude = MAGNITUDES[current.gate.decision.scored]
        title = magnitude if current.gate.scale is None else f"{magnitude} c"
        self.set_axes(f"score {title}", "inputs")
        self.set_y_limits(0.0)
        self.redraw()
        self.reset_zoom()

    def redraw(self) -> None:
        """Draw bars and boundaries."""
        if self._subject is None:
            return
        current, token = self._subject
        chosen, colour = rows(token, len(current.mask)), method_colour(current.method.name)
        scores, mask = logs(current.gate.scores[chosen]).reshape(-1), current.mask[chosen].reshape(-1)
        low, high = float(scores.min()), float(scores.max())
        # Equal scores need bins of some width, too.
        edges = np.linspace(low, high if high > low else low + 1.0, _BINS + 1)
        total, kept = np.histogram(scores, edges)[0], np.histogram(scores[mask], edges)[0]
        middles = ((edges[1:] + edges[:-1]) / 2).tolist()

        def readout(index: int) -> str:
            counts = f"{kept[index]} kept, {total[index] - kept[index]} dropped"
            return f"{10 ** edges[index]:.3g} – {10 ** edges[index + 1]:.3g}: {counts}"

        bars = [
            Trace(name, fill, middles, counts.tolist(), says, width=float(edges[1] - edges[0]), named=False)
            for name, fill, counts, says in (
                ("dropped", QColor(tokens().border), total, readout),
                ("kept", colour, kept, None),
            )
        ]
        top = float(total.max())
        thresholds = finite(current.boundaries[chosen])
        levels = np.quantile(thresholds, (0.0, 0.5, 1.0), method="nearest") if thresholds.size else np.empty(0)
        # Of all tokens, the lowest, the median and the highest.
        borders = tuple(dict.fromkeys(np.log10(levels[levels > 0]).tolist()))
        middle = len(borders) // 2
        lines = [
            Trace(
                "threshold" if index == middle else "", QColor(tokens().text), (level, level), (0.0, top), None,
                style=Qt.PenStyle.SolidLine if index == middle else Qt.PenStyle.DotLine, named=False,
            )
            for index, level in enumerate(borders)
        ]  # fmt: skip
        self._line.setPen(pg.mkPen(tokens().text, width=2, style=Qt.PenStyle.DashLine))
        self.show_traces([*bars, *lines])

    def mark_input(self, token: int, neuron: int) -> None:
        """Put a line at an input's score."""
        if self._subject is not None:
            self._line.setPos(logs(self._subject[0].gate.scores[token])[neuron])
            self._line.show()

    def unmark(self) -> None:
        self._line.hide()


def _magnitude(cell: InspectedCell, current: PlannedGate) -> str:
    scored = current.gate.decision.scored
    return "|x|, column norms folded in" if cell.record.folded and scored == "input" else MAGNITUDES[scored]


def input_text(cell: InspectedCell, current: PlannedGate, token: int, neuron: int) -> str:
    """Return all numbers of one input in a line."""
    gate = current.gate
    word = cell.record.tokens[token].replace("\n", "⏎")
    magnitude = f"{_magnitude(cell, current)} {gate.magnitudes[token, neuron]:.3g}"
    decision = "kept" if current.mask[token, neuron] else "dropped"
    return (
        f"“{word}” · input {neuron} · {magnitude} · c {weights(cell, current)[neuron]:.3g} · "
        f"score {gate.scores[token, neuron]:.3g} · {decision}"
    )


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
        # At multiples of the step, so that the same tokens stay named while the view scrolls.
        return [(float(step), [row + 0.5 for row in range(first, last) if row % step == 0])]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: ARG002 - pyqtgraph gives them
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
        super().__init__("Mask of tokens by inputs", log_axes="")
        self._order = np.empty(0, dtype=np.int64)
        plot = self.getPlotItem()
        self._words = TokenAxis(orientation="left")
        plot.setAxisItems({"left": self._words})
        self._words.setWidth(10 * GRID)
        self._words.enableAutoSIPrefix(False)
        plot.vb.invertY(True)
        plot.vb.setDefaultPadding(0.0)
        self._image = pg.ImageItem(axisOrder="row-major")
        self._image.setAutoDownsample(True)  # averages, so that the colour is the share kept within a pixel
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
        names = {"index": "input", "norm": "inputs by norm", "kept": "inputs by share kept"}
        self.set_axes(names[by], "token")
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
        scale = ColourScale("Kept share", "%", 0.0, 1.0, percent)
        return map_figure(self.accessibleName(), words, [str(start) for start in starts], kept_shares, scale)

    def mark_input(self, token: int, neuron: int) -> None:
        """Cross lines at an input."""
        if self._subject is not None:
            column = int(np.flatnonzero(self._order == neuron)[0])
            for line, position in zip(self._focus_lines, (column + 0.5, token + 0.5), strict=True):
                line.setPos(position)
                line.show()

    def unmark(self) -> None:
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
        # The base shows no numbers beside a plot without traces, which the map never has.
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
