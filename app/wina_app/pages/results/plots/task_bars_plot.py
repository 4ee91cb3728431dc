"""Every task's metric as bars: the configurations of one sparsity beside each other, dense as a dashed line."""

import math
from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor

from wina_app.pages.results.plots.task_bars import Bar, BarChart, BarConfiguration, bar_readout
from wina_app.plots.data_plot import UNBOUNDED, DataPlot
from wina_app.plots.plot_items import Trace
from wina_app.style.theme import method_colour
from wina_app.style.translation import tr

_GROUP = 0.8
"""Largest part of a task's place for its bars."""
_WIDEST = 0.2
"""Widest bar, in tasks' places."""
_SHADES = (100, 130, 160, 80, 190)
"""Darkness in percent of further configurations of one method."""


class BarsPlot(DataPlot):
    """Bars with the method as hue, the configuration as shade, and published values as hollow markers."""

    _chart: BarChart | None = None

    def __init__(self) -> None:
        super().__init__(tr("Tasks: a metric of every task"))
        self.list_names(True)
        self.getPlotItem().showGrid(x=False, y=True)

    def show_chart(self, chart: BarChart | None) -> None:
        """Draw the bars; None clears the plot."""
        before, self._chart = self._chart, chart
        if chart is None:
            self.set_ticks(())
            self.show_traces(())
            return
        self._show(chart)
        if before is None or (before.metric, before.tasks, before.sparsity) != (
            chart.metric,
            chart.tasks,
            chart.sparsity,
        ):
            self.reset_zoom()

    def reset_zoom(self) -> None:
        """Show all tasks, and the bars from 0 on."""
        super().reset_zoom()
        if self._chart is not None and self._chart.tasks:
            self.show_range(x=(-0.5, len(self._chart.tasks) - 0.5))

    def _restyle(self) -> None:
        super()._restyle()
        if self._chart is not None:
            self._show(self._chart)  # the reference's colour depends on the appearance

    def _show(self, chart: BarChart) -> None:
        self.set_axes("", chart.metric)
        self.getPlotItem().showGrid(x=False, y=True)
        self.set_ticks(tuple(enumerate(chart.tasks)))
        width = min(_GROUP / max(len(chart.configurations), 1), _WIDEST)
        bars = [
            self._trace(chart, each, colour, width, (number - (len(chart.configurations) - 1) / 2) * width)
            for number, (each, colour) in enumerate(
                zip(chart.configurations, _colours(chart.configurations), strict=True)
            )
        ]
        published = [
            marks
            for trace, each in zip(bars, chart.configurations, strict=True)
            if (marks := _published(chart, each.name, each.bars, trace.x, trace.colour, each.run)) is not None
        ]
        traces = [*bars, *_dense(chart), *published]
        lowest = min((y for trace in traces for y in trace.y if not math.isnan(y)), default=0.0)
        self.set_y_limits(0.0 if lowest >= 0.0 else -UNBOUNDED)
        self.show_traces(traces)

    def _trace(
        self, chart: BarChart, configuration: BarConfiguration, colour: QColor, width: float, offset: float
    ) -> Trace:
        errors = [math.nan if bar.stderr is None else bar.stderr for bar in configuration.bars]
        return Trace(
            name=configuration.label,
            colour=colour,
            x=[bar.task + offset for bar in configuration.bars],
            y=[bar.value for bar in configuration.bars],
            readout=lambda index: bar_readout(configuration.name, chart, configuration.bars[index]),
            errors=errors if any(map(math.isfinite, errors)) else (),
            keys=[configuration.run] * len(configuration.bars),
            width=width,
        )


def _colours(configurations: Sequence[BarConfiguration]) -> list[QColor]:
    """Return each configuration's colour: its method's hue, darker where the method has several."""
    methods = [each.method for each in configurations]
    return [
        method_colour(method).darker(_SHADES[methods[:place].count(method) % len(_SHADES)])
        for place, method in enumerate(methods)
    ]


def _dense(chart: BarChart) -> list[Trace]:
    """Return dashed lines across each task, and the published dense values as markers."""
    if not chart.dense:
        return []
    colour = method_colour("dense")
    pieces = [(x, y) for bar in chart.dense for x, y in _piece(bar)]
    half = _GROUP / 2 + 0.05
    found = [
        Trace("dense", colour, [x for x, _ in pieces], [y for _, y in pieces], None, style=Qt.PenStyle.DashLine),
        Trace(
            "dense",
            colour,
            [bar.task - half for bar in chart.dense],
            [bar.value for bar in chart.dense],
            lambda index: bar_readout("dense", chart, chart.dense[index]),
            style=Qt.PenStyle.NoPen,
            named=False,
        ),
    ]
    marks = _published(chart, "dense", chart.dense, [bar.task + half for bar in chart.dense], colour, "")
    return [*found, marks] if marks is not None else found


def _piece(bar: Bar) -> tuple[tuple[float, float], ...]:
    half = _GROUP / 2 + 0.05
    return ((bar.task - half, bar.value), (bar.task + half, bar.value), (bar.task + half, math.nan))


def _published(
    chart: BarChart, name: str, bars: Sequence[Bar], x: Sequence[float], colour: QColor, run: str
) -> Trace | None:
    """Return hollow markers over a configuration's bars; None where nothing is published."""
    known = [(at, bar, bar.paper) for at, bar in zip(x, bars, strict=True) if bar.paper is not None]
    if not known:
        return None
    return Trace(
        name=tr("{method}, paper", method=name),
        colour=colour,
        x=[at for at, _, _ in known],
        y=[paper for _, _, paper in known],
        readout=lambda index: bar_readout(name, chart, known[index][1]),
        symbol="o",
        style=Qt.PenStyle.NoPen,
        hollow=True,
        keys=[run] * len(known) if run else (),
    )
