"""Targets and measured sparsities of selected runs over depth."""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor

from wina_app.pages.results.plots.layers import EACH, MEAN, ProfileLine, RunLayers, profile_lines
from wina_app.plots.colour_maps import category
from wina_app.plots.data_plot import DataPlot
from wina_app.plots.plot_items import Trace
from wina_app.plots.whole_number_axis import WholeNumberAxis
from wina_app.style.theme import method_colour
from wina_app.style.translation import tr

_MARKERS = ("o", "s", "t1", "d", "t", "star", "p", "h")
"""Markers of the runs."""
_LEAST_SPAN = 10.0
"""Fewest points of sparsity on the y axis, so that equal values do not look like noise."""
_PROJECTIONS = ("q", "k", "v", "o", "gate", "up", "down")


class DepthPlot(DataPlot):
    """Dashed targets and solid measured sparsities, with the run as marker."""

    def __init__(self) -> None:
        super().__init__(tr("Allocation: sparsity over depth"))
        layers = WholeNumberAxis("bottom")
        self.getPlotItem().setAxisItems({"bottom": layers})
        self._shown: tuple[tuple[str, ...], str] | None = None

    def show_profiles(self, runs: Sequence[RunLayers], projection: str) -> None:
        """Draw the mean over projections, one of them or each; a zoom stays while the same runs are shown."""
        lines = profile_lines(runs, projection)
        what = {MEAN: tr("mean of projections"), EACH: tr("each projection")}.get(projection, projection)
        self.set_axes(tr("decoder layer"), tr("sparsity, {what} (%)", what=what), _LEAST_SPAN)
        several = len(runs) > 1
        self.show_traces([_trace(line, several, projection == EACH) for line in lines])
        before, self._shown = self._shown, (tuple(run.run for run in runs), projection)
        if before != self._shown:
            self.reset_zoom()


def _trace(line: ProfileLine, several: bool, by_projection: bool) -> Trace:
    name = ", ".join(filter(None, (line.name if several else "", line.projection if by_projection else "", line.kind)))
    return Trace(
        name=name,
        colour=_projection_colour(line.projection) if by_projection else QColor(method_colour(line.method)),
        x=line.layers,
        y=line.percent,
        readout=lambda index: tr(
            "{name}: layer {layer}, {value} %", name=f"{line.name}, {name}" if not several else name,
            layer=line.layers[index], value=f"{line.percent[index]:.2f}",
        ),
        symbol=_MARKERS[line.index % len(_MARKERS)] if line.kind == "measured" else "",
        style=Qt.PenStyle.DashLine if line.kind == "target" else Qt.PenStyle.SolidLine,
    )  # fmt: skip


def _projection_colour(name: str) -> QColor:
    return category(_PROJECTIONS.index(name) if name in _PROJECTIONS else len(_PROJECTIONS))
