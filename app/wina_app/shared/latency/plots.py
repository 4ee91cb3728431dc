"""Latency plots side by side: one zoom along sparsity, one crosshair through both."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from wina_app.plots.data_plot import DataPlot
from wina_app.plots.plot_items import Reference, Trace
from wina_app.shared.latency.chart import Chart, ChartLine, Panel
from wina_app.style.theme import method_colour, restyle_when_shown
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import ElidedLabel

_AXIS = "measured sparsity (%)"
_MARKERS = ("s", "o", "t1", "d", "t", "star", "p", "h")
"""By backend or rotation."""
_STYLES = (
    Qt.PenStyle.SolidLine,
    Qt.PenStyle.DashDotLine,
    Qt.PenStyle.DotLine,
    Qt.PenStyle.DashDotDotLine,
)
"""By dtype and selection; dashes are the references'."""
_LEAST_SPAN = 10.0
"""Fewest points of sparsity in the first view."""
_UNBOUNDED = 1e307
"""pyqtgraph's own limit of an axis without any."""
_DOT = "  \N{MIDDLE DOT}  "


class LatencyPlots(QWidget):
    """The colour shows the method, the marker the backend or rotation, the line's pattern the rest."""

    def __init__(self) -> None:
        super().__init__()
        self._chart: Chart | None = None
        self.left = DataPlot("Speed-up against sparsity")
        self.right = DataPlot("Latency against sparsity")
        self.right.getPlotItem().setXLink(self.left.getPlotItem())
        self.readout = ElidedLabel("muted")
        self.readout.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        for plot, other in ((self.left, self.right), (self.right, self.left)):
            plot.getPlotItem().vb.setLimits(minXRange=_LEAST_SPAN)
            plot.readout_changed.connect(self._show_readout)
            plot.caught_changed.connect(other.mark)
            plot.view_changed.connect(lambda plot=plot, other=other: other.hide_series(plot.hidden))
        vbox(self, (hbox(None, (self.left, 1), (self.right, 1)), 1), self.readout)
        restyle_when_shown(self, self._restyle)

    def show_chart(self, chart: Chart, *, fresh: bool) -> None:
        """Draw both plots; a fresh one starts unzoomed."""
        if chart == self._chart:
            return
        self._chart = chart
        self._restyle()
        self._show_readout("")
        if fresh:
            self.left.reset_zoom()
            self.right.reset_zoom()

    def _show_readout(self, text: str) -> None:
        notes = _DOT.join(self._chart.notes) if self._chart is not None else ""
        self.readout.setText(text or notes)

    def _restyle(self) -> None:
        if self._chart is None:
            return
        lines = self._chart.lines
        left = [_trace(line, line.left) for line in lines]
        right = [_trace(line, line.right, line.spans) for line in lines]
        self._show(self.left, self._chart.left, [*left, *_curves(self._chart.left)])
        self._show(self.right, self._chart.right, [*right, *_curves(self._chart.right)])

    def _show(self, plot: DataPlot, panel: Panel, traces: list[Trace]) -> None:
        plot.set_axes(_AXIS, panel.title)
        plot.set_y_limits(0.0, min(panel.ceiling, _UNBOUNDED))
        plot.show_traces(traces, [Reference(name, method_colour("dense"), y) for name, y in panel.references])


def _trace(line: ChartLine, y: tuple[float, ...], spans: tuple[tuple[float, float], ...] = ()) -> Trace:
    return Trace(
        name=line.name,
        colour=method_colour(line.method),
        x=line.x,
        y=y,
        readout=line.readouts.__getitem__,
        spans=spans,
        symbol=_MARKERS[line.marker % len(_MARKERS)],
        style=_STYLES[line.pattern % len(_STYLES)],
    )


def _curves(panel: Panel) -> list[Trace]:
    """Return the curves, drawn after the lines, whose indices are the same in both plots."""
    grey, dots = method_colour("dense"), Qt.PenStyle.DotLine
    return [
        Trace(
            name=curve.name,
            colour=grey,
            x=[x for x, _ in curve.points],
            y=[y for _, y in curve.points],
            readout=None,
            style=dots,
        )
        for curve in panel.curves
    ]
