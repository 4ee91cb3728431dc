"""Latency plots side by side: one zoom along sparsity, one crosshair through both."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from wina_app.plots.data_plot import DataPlot
from wina_app.plots.plot_items import Reference, Trace
from wina_app.shared.latency.chart import Chart, ChartLine, Panel
from wina_app.style.theme import method_colour, notifier
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import ElidedLabel

_AXIS = tr("measured sparsity (%)")
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
_ROOFLINE = tr("roofline 1 / (1 − s)")


class LatencyPlots(QWidget):
    """The colour shows the method, the marker the backend or rotation, the line's pattern the rest."""

    def __init__(self) -> None:
        super().__init__()
        self._chart: Chart | None = None
        self.left = DataPlot(tr("Speed-up against sparsity"))
        self.right = DataPlot(tr("Latency against sparsity"))
        self.right.getPlotItem().setXLink(self.left.getPlotItem())
        self.readout = ElidedLabel("muted")
        self.readout.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        for plot, other in ((self.left, self.right), (self.right, self.left)):
            plot.getPlotItem().vb.setLimits(minXRange=_LEAST_SPAN)
            plot.readout_changed.connect(self.readout.setText)
            plot.caught_changed.connect(other.mark)
        vbox(self, (hbox(None, (self.left, 1), (self.right, 1)), 1), self.readout)
        notifier().changed.connect(self._restyle)

    def show_chart(self, chart: Chart, *, fresh: bool) -> None:
        """Draw both plots; a fresh one starts unzoomed."""
        if chart == self._chart:
            return
        self._chart = chart
        self._restyle()
        if fresh:
            self.left.reset_zoom()
            self.right.reset_zoom()

    def _restyle(self) -> None:
        if self._chart is None:
            return
        lines = self._chart.lines
        left = [_trace(line, line.left) for line in lines]
        self._show(self.left, self._chart.left, [*left, *_roofline(self._chart.left)])
        self._show(self.right, self._chart.right, [_trace(line, line.right, line.spans) for line in lines])

    def _show(self, plot: DataPlot, panel: Panel, traces: list[Trace]) -> None:
        plot.set_axes(_AXIS, panel.title)
        plot.getPlotItem().vb.setLimits(yMin=0.0, yMax=min(panel.ceiling, _UNBOUNDED))
        plot.show_traces(traces, [Reference(name, method_colour("dense"), y) for name, y in panel.references])


def _trace(line: ChartLine, y: tuple[float, ...], spans: tuple[tuple[float, float], ...] = ()) -> Trace:
    return Trace(
        name=line.name,
        colour=method_colour(line.method),
        x=line.x,
        y=y,
        readout=line.readouts.__getitem__,
        keys=line.keys,
        spans=spans,
        symbol=_MARKERS[line.marker % len(_MARKERS)],
        style=_STYLES[line.pattern % len(_STYLES)],
    )


def _roofline(panel: Panel) -> list[Trace]:
    """Return the bound as a curve, drawn after the lines, whose indices are the same in both plots."""
    if not panel.roofline:
        return []
    x, y = zip(*panel.roofline, strict=True)
    return [Trace(_ROOFLINE, method_colour("dense"), x, y, readout=None, style=Qt.PenStyle.DotLine)]
