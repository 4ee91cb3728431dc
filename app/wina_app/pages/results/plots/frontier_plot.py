"""A metric against sparsity, a line for each configuration and the dense model as a dashed reference; or against a
cost, a point for each configuration and the steps of the Pareto front."""

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QStackedWidget

from wina_app.pages.results.plots.frontier import (
    X_AXES,
    FrontierData,
    FrontierMeasure,
    ParetoData,
    distinct_references,
    groups,
    kinds,
    names,
    pareto_readout,
    published_readout,
    readout,
)
from wina_app.pages.results.plots.panel import PlotPanel, left_out_note
from wina_app.pages.results.runs import PublishedLine, is_dense
from wina_app.plots.data_plot import UNBOUNDED, DataPlot
from wina_app.plots.plot_items import MARKERS, Reference, Trace
from wina_app.style.theme import GRID, method_colour, tokens
from wina_app.widgets.combo_box import ComboBox
from wina_core.analysis.comparison.axes import front_steps
from wina_core.analysis.results.measured import DEFAULT_COUNT, Count, SparsityKind, sparsity_of
from wina_core.records import METRIC_UNITS

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.analysis.comparison.frontier import FrontierLine

_STYLES = (
    Qt.PenStyle.SolidLine,
    Qt.PenStyle.DashDotLine,
    Qt.PenStyle.DotLine,
    Qt.PenStyle.DashDotDotLine,
)
"""Lines by kind; dashes are the dense reference's and the paper's."""

_LEAST_SPAN = 20.0
"""Fewest points of sparsity in the first view."""


class FrontierPlot(DataPlot):
    """Lines with the method as colour, the rotation as marker, and variant, masks, selection and plan as pattern."""

    _data: FrontierData | None = None
    _x_axis: SparsityKind = DEFAULT_COUNT

    def __init__(self) -> None:
        super().__init__("Frontier: metric against sparsity")

    def show_frontier(self, data: FrontierData | None, x_axis: SparsityKind) -> None:
        """Draw the lines; None clears the plot."""
        if data is not None and (data, x_axis) == (self._data, self._x_axis):
            return
        before = (self._data.measure if self._data else None, self._x_axis)
        self._data, self._x_axis = data, x_axis
        if data is None:
            self.show_traces(())
            return
        self._show(data)
        if before != (data.measure, x_axis):
            self.reset_zoom()

    def reset_zoom(self) -> None:
        """Show everything, and at least `_LEAST_SPAN` points of sparsity."""
        super().reset_zoom()
        xs = [x for trace in self.traces for x in trace.x]
        if xs and max(xs) - min(xs) < _LEAST_SPAN:
            middle = (max(xs) + min(xs)) / 2
            self.show_range(x=(middle - _LEAST_SPAN / 2, middle + _LEAST_SPAN / 2), padding=0.06)

    def _restyle(self) -> None:
        super()._restyle()
        if self._data is not None:
            self._show(self._data)  # the reference's colour depends on the appearance

    def _show(self, data: FrontierData) -> None:
        measure = data.measure
        self.set_axes(f"{self._x_axis} sparsity (%)", _axis_title(measure.metric, measure))
        # Without a rotation is always the first marker, whatever other rotations are drawn.
        rotations = sorted({line.rotation for line in data.lines}, key=lambda name: (name != "none", name))
        traces = [
            self._trace(data, line, name, rotations.index(line.rotation), kind)
            for line, name, kind in zip(data.lines, data.configurations or names(data.lines), _kinds(data), strict=True)
        ]
        if self._x_axis != "net":  # the paper counts as its methods do
            traces += [_published(line, measure) for line in data.published if not is_dense(line)]
        dense = method_colour("dense")
        references = [Reference(name, dense, value) for name, value in distinct_references(data.dense)]
        references += [Reference("dense, paper", dense, line.y[0]) for line in data.published if is_dense(line)]
        self._bound([*(y for trace in traces for y in trace.y), *(reference.y for reference in references)])
        self.show_traces([trace for trace in traces if trace.x], references)

    def _bound(self, values: list[float]) -> None:
        # From 0 on if nothing is negative, with room for the markers there.
        floor = -0.04 * (max(values) or 1.0) if values and min(values) >= 0.0 else -UNBOUNDED
        self.set_y_limits(floor)

    def _trace(self, data: FrontierData, line: "FrontierLine", name: str, rotation: int, kind: int) -> Trace:
        count: Count = data.count if self._x_axis == "target" else self._x_axis
        placed = ((sparsity_of(point, self._x_axis), point) for point in line.points)
        ordered = sorted(placed, key=lambda pair: pair[0])
        errors = [math.nan if point.stderr is None else point.stderr for _, point in ordered]
        return Trace(
            name=name,
            colour=method_colour(line.method.split(" ")[0]),
            x=[100.0 * x for x, _ in ordered],
            y=[point.value for _, point in ordered],
            readout=lambda index: readout(name, data.measure, ordered[index][1], count),
            errors=errors if any(map(math.isfinite, errors)) else (),
            keys=[point.run for _, point in ordered],
            symbol=MARKERS[rotation % len(MARKERS)],
            style=_STYLES[kind % len(_STYLES)],
        )


def _axis_title(name: str, measure: FrontierMeasure) -> str:
    unit = f" ({METRIC_UNITS[measure.metric]})" if measure.metric in METRIC_UNITS else ""
    better = {True: " \N{UPWARDS ARROW}", False: " \N{DOWNWARDS ARROW}", None: ""}
    return f"{name}{unit}{better[measure.higher_is_better]}"


def _published(line: PublishedLine, measure: FrontierMeasure) -> Trace:
    return Trace(
        name=f"{line.method}, paper",
        colour=method_colour(_method_of(line.method)),
        x=[100.0 * x for x in line.x],
        y=line.y,
        readout=partial(published_readout, measure, line),
        symbol="o",
        style=Qt.PenStyle.DashLine,
        hollow=True,
    )


def _kinds(data: FrontierData) -> list[int]:
    """Return `kinds`, or with a study's names patterns only for lines that share a colour and a marker."""
    if not data.configurations:
        return kinds(data.lines)
    alike = [(line.method.split(" ")[0], line.rotation) for line in data.lines]
    return [alike[:index].count(style) for index, style in enumerate(alike)]


def _method_of(printed: str) -> str:
    """Return the registry's name of a printed method: "rsparse" of "R-Sparse", "teal" of "TEAL-transform"."""
    return printed.lower().replace("r-sparse", "rsparse").partition("-")[0].partition("/")[0]


_IMPORTED = "x"
_FADED = 0.35
"""Share of its colour that a dominated point keeps."""


class ParetoPlot(DataPlot):
    """Points with the method as colour and the bits as marker; imported points are crosses."""

    _data: ParetoData | None = None

    def __init__(self) -> None:
        super().__init__("Frontier: metric against cost", log_axes="xy")

    def show_points(self, data: ParetoData | None) -> None:
        """Draw the points; None clears the plot."""
        if data == self._data and data is not None:
            return
        before, self._data = self._data, data
        if data is None:
            self.show_traces(())
            return
        fresh = before is None or (before.measure, before.axis) != (data.measure, data.axis)
        self._show(data)
        if fresh:
            self.set_log("y", data.quality.is_divergence)
            self.reset_zoom()

    def _restyle(self) -> None:
        super()._restyle()
        if self._data is not None:
            self._show(self._data)  # faded colours depend on the appearance

    def _show(self, data: ParetoData) -> None:
        measure, axis = data.measure, data.axis
        self.set_axes(f"{axis.label}{_SIDEWAYS[axis.higher_is_better]}", _axis_title(measure.title, measure))
        bits = sorted({point.bits for point in data.points}, key=lambda name: (bool(name), name))
        traces = [_front_line(data, group) for group in dict.fromkeys(point.group for point in data.points)]
        for name, indices in groups(data.points).items():
            first = data.points[indices[0]]
            symbol = _IMPORTED if first.imported else MARKERS[bits.index(first.bits) % len(MARKERS)]
            prominent = [index for index in indices if data.front[index] or first.imported]
            faded = [index for index in indices if index not in prominent]
            colour = tokens().text if first.imported else method_colour(first.method.split(" ")[0])
            traces += [
                _points(data, name, QColor(colour), symbol, prominent, named=True),
                # Both are one series: its name is written once.
                _points(data, name, _mixed(QColor(colour)), symbol, faded, named=not prominent),
            ]
        self.show_traces([trace for trace in traces if trace.x])


_SIDEWAYS = {True: " \N{RIGHTWARDS ARROW}", False: " \N{LEFTWARDS ARROW}"}
"""The better direction of the cost."""


def _points(data: ParetoData, name: str, colour: QColor, symbol: str, indices: list[int], *, named: bool) -> Trace:
    runs = [data.points[point].run for point in indices]
    return Trace(
        name=name,
        colour=colour,
        x=[data.points[point].x for point in indices],
        y=[data.quality.height(data.points[point].y) for point in indices],
        readout=lambda index: pareto_readout(data, indices[index]),
        errors=[data.points[point].stderr or 0.0 for point in indices],
        keys=runs if any(runs) else (),  # one for each point: a point without a run has an empty key
        symbol=symbol,
        style=Qt.PenStyle.NoPen,
        named=named,
        size=GRID + 2,
    )


def _front_line(data: ParetoData, group: str) -> Trace:
    """Return the steps of a group's front: a cost between two of its points buys the quality of the cheaper one."""
    on_front = zip(data.points, data.front, strict=True)
    points = sorted((point for point, on in on_front if on and point.group == group), key=lambda point: point.x)
    x, y = front_steps([(point.x, data.quality.height(point.y)) for point in points], x_up=data.axis.higher_is_better)
    return Trace(
        name="Pareto front",
        colour=QColor(tokens().muted),
        x=x,
        y=y,
        readout=None,
        style=Qt.PenStyle.DashLine,
        named=False,
    )


def _mixed(colour: QColor) -> QColor:
    """Return the colour faded into the background."""
    # Mixed, not transparent: files take the name of a colour, which has no alpha.
    behind = QColor(tokens().surface)
    channels = ((colour.red(), behind.red()), (colour.green(), behind.green()), (colour.blue(), behind.blue()))
    return QColor(*(round(_FADED * level + (1 - _FADED) * background) for level, background in channels))


_BETTER = {
    True: "↑ better",
    False: "↓ better",
    None: "",
}


class FrontierPanel(PlotPanel):
    """A metric against sparsity, or against a cost."""

    def __init__(self) -> None:
        self.measure, self.model = ComboBox("Metric"), ComboBox("Model")
        self.x_axis = ComboBox("Sparsity or cost axis")
        self.x_axis.fill(X_AXES, DEFAULT_COUNT)
        self.plot, self.pareto = FrontierPlot(), ParetoPlot()
        self._stack = QStackedWidget()
        self._stack.addWidget(self.plot)
        self._stack.addWidget(self.pareto)
        choices = (("Metric", self.measure), ("against", self.x_axis), ("of", self.model))
        super().__init__(choices, self._stack, term="Pareto front")
        for plot in (self.plot, self.pareto):
            plot.readout_changed.connect(self.readout.setText)

    @property
    def current(self) -> DataPlot:
        return self.pareto if self._stack.currentWidget() is self.pareto else self.plot

    def show_pareto(self, data: ParetoData | None, x_axis: str) -> None:
        """Draw all bits over a cost, and note the better direction, or what to measure first."""
        self._stack.setCurrentWidget(self.pareto)
        self.x_axis.fill(X_AXES, x_axis)
        if data is None:
            self.note.setText("")
        elif not data.points:
            self.note.setText(f"No numbers: {data.axis.advice}")
        else:
            self.note.setText(_BETTER[data.measure.higher_is_better])
        self.pareto.show_points(data)

    def show_frontier(self, data: FrontierData | None, x_axis: SparsityKind) -> None:
        """Draw the lines, and note the better direction, the place of published points, and the number left out."""
        better = data.measure.higher_is_better if data else None
        self._stack.setCurrentWidget(self.plot)
        self.x_axis.fill(X_AXES, x_axis)
        notes = (_BETTER[better], _paper_note(data, x_axis), left_out_note(data.left_out if data else 0))
        self.show_notes(*notes)
        self.plot.show_frontier(data, x_axis)

    def show_measures(self, measures: Sequence[FrontierMeasure], measure: FrontierMeasure | None) -> None:
        self.measure.fill([(choice.title, choice) for choice in measures], measure)


def _paper_note(data: FrontierData | None, x_axis: SparsityKind) -> str:
    """Say at which sparsity the paper's points are drawn; empty where there are none."""
    if data is None or all(is_dense(line) for line in data.published):
        return ""
    if x_axis == "net":
        return "The paper's numbers are not drawn: it does not print net sparsities."
    return "" if x_axis == "target" else "Hollow: the paper's, at the nominal sparsities that it prints."
