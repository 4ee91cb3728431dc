"""Quality against cost: a point for each configuration, the Pareto front as a line, dominated points faded."""

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor

from wina_app.pages.results.plots.pareto import ParetoData, groups, readout
from wina_app.plots.data_plot import DataPlot
from wina_app.plots.plot_items import Trace
from wina_app.style.theme import GRID, method_colour, tokens
from wina_app.style.translation import tr
from wina_core.analysis.comparison.axes import front_steps
from wina_core.records import METRIC_UNITS

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    pass

_SYMBOLS = ("o", "s", "t1", "d", "t", "star", "p", "h")
"""Markers by bits; unquantized ones always have the first."""
_IMPORTED = "x"
_FADED = 0.35
"""Share of its colour that a dominated point keeps."""


class ParetoPlot(DataPlot):
    """Points with the method as colour and the bits as marker; imported points are crosses."""

    _data: ParetoData | None = None

    def __init__(self) -> None:
        super().__init__(tr("Frontier: metric against cost"), log_axes="xy")

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
        unit = f" ({METRIC_UNITS[measure.metric]})" if measure.metric in METRIC_UNITS else ""
        better = {True: " \N{UPWARDS ARROW}", False: " \N{DOWNWARDS ARROW}", None: ""}
        self.set_axes(
            f"{axis.label}{_SIDEWAYS[axis.higher_is_better]}",
            f"{measure.title}{unit}{better[measure.higher_is_better]}",
        )
        bits = sorted({point.bits for point in data.points}, key=lambda name: (bool(name), name))
        traces = [_front_line(data, group) for group in dict.fromkeys(point.group for point in data.points)]
        for name, places in groups(data.points).items():
            first = data.points[places[0]]
            symbol = _IMPORTED if first.imported else _SYMBOLS[bits.index(first.bits) % len(_SYMBOLS)]
            shown = [place for place in places if data.front[place] or first.imported]
            faded = [place for place in places if place not in shown]
            colour = tokens().text if first.imported else method_colour(first.method.split(" ")[0])
            traces += [
                _points(data, name, QColor(colour), symbol, shown, named=True),
                _points(data, name, _mixed(QColor(colour)), symbol, faded, named=not shown),
            ]
        self.show_traces([trace for trace in traces if trace.x])


_SIDEWAYS = {True: " \N{RIGHTWARDS ARROW}", False: " \N{LEFTWARDS ARROW}"}
"""The better direction of the cost."""


def _points(data: ParetoData, name: str, colour: QColor, symbol: str, places: list[int], *, named: bool) -> Trace:
    return Trace(
        name=name,
        colour=colour,
        x=[data.points[place].x for place in places],
        y=[data.quality.height(data.points[place].y) for place in places],
        readout=lambda index: readout(data, places[index]),
        errors=[data.points[place].stderr or 0.0 for place in places],
        keys=[data.points[place].run for place in places if data.points[place].run],
        symbol=symbol,
        style=Qt.PenStyle.NoPen,
        named=named,
        size=GRID + 2,
    )


def _front_line(data: ParetoData, group: str) -> Trace:
    """Return the steps of a group's front: at a cost between two of its points one has the quality of the cheaper."""
    on_front = zip(data.points, data.front, strict=True)
    points = sorted((point for point, on in on_front if on and point.group == group), key=lambda point: point.x)
    x, y = front_steps([(point.x, data.quality.height(point.y)) for point in points], x_up=data.axis.higher_is_better)
    return Trace(
        name=tr("Pareto front"),
        colour=QColor(tokens().muted),
        x=x,
        y=y,
        readout=None,
        style=Qt.PenStyle.DashLine,
        named=False,
    )


def _mixed(colour: QColor) -> QColor:
    """Return the colour faded into the background, as one that files can have."""
    behind = QColor(tokens().surface)
    parts = ((colour.red(), behind.red()), (colour.green(), behind.green()), (colour.blue(), behind.blue()))
    return QColor(*(round(_FADED * own + (1 - _FADED) * other) for own, other in parts))
