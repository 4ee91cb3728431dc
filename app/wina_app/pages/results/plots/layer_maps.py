"""Measured sparsity over layers and projections: of one selected run, of two beside each other, or their difference;
and of any number of runs over depth."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QWidget

from wina_app.heatmap.heatmap import Heatmap
from wina_app.pages.results.plots.layers import EACH, MEAN, ProfileLine, RunLayers, difference, profile_lines
from wina_app.plots.colour_bar import ColourBar
from wina_app.plots.colour_maps import DIFFERENCE, ColourScale, category, signed_points
from wina_app.plots.data_plot import DataPlot
from wina_app.plots.plot_items import Trace
from wina_app.plots.whole_number_axis import WholeNumberAxis
from wina_app.shared.colour_scales import scale_for
from wina_app.style.theme import GRID, method_colour
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import ElidedLabel, beside, explain_disabled, text_label
from wina_app.widgets.segmented_control import SegmentedControl
from wina_core.report.drawing import Figure
from wina_core.specs.plans import Cell

_NONE_SELECTED = tr("Select a row of the table to see what its run dropped in every layer and projection.")
_NOTHING_GATED = tr("Nothing was gated in this run, so there is nothing to count.")
_ONE = tr("Select rows of two runs, the second with Ctrl held")


class LayerMap(QWidget):
    """A read-only heatmap under its title."""

    def __init__(self) -> None:
        super().__init__()
        self.title = ElidedLabel("section")
        self.heatmap = Heatmap(tr("Measured sparsity of the selected run"))
        self.heatmap.tooltip = self._cell_text
        self._bar = ColourBar()
        self._projections: tuple[str, ...] = ()
        self._values = np.empty((0, 0))
        self._scale: ColourScale | None = None
        vbox(self, self.title, (self.heatmap, 1), self._bar)

    def show_map(self, title: str, projections: tuple[str, ...], values: np.ndarray, scale: ColourScale) -> None:
        """Show [layers, projections] under a title."""
        self._projections, self._values, self._scale = projections, values, scale
        self.title.setText(title)
        self.heatmap.setAccessibleName(f"{scale.title}: {title}")
        self.heatmap.set_table([str(layer) for layer in range(len(values))], projections)
        self.heatmap.set_values(values, scale)
        self._bar.set_scale(scale)

    def figure(self) -> Figure:
        """Return the map under its title."""
        return tuple(replace(panel, title=self.title.whole()) for panel in self.heatmap.figure())

    def _cell_text(self, cell: Cell) -> str:
        layer, column = cell
        value, scale = self._values[layer, column], self._scale
        assert scale is not None  # there are cells
        shown = tr("no data") if np.isnan(value) else f"{scale.text(value)} {scale.unit}"
        return tr(
            "layer {layer} · {projection}\n{quantity}: {shown}",
            layer=layer,
            projection=self._projections[column],
            quantity=scale.title.lower(),
            shown=shown,
        )


class ResultsLayers(QWidget):
    """One map, two beside each other, or their difference."""

    def __init__(self) -> None:
        super().__init__()
        self._runs: tuple[RunLayers, ...] = ()
        self.mode = SegmentedControl(
            tr("Two runs"),
            (
                ("beside", tr("Side by side"), tr("The first two of the selected runs, each with its own map")),
                ("difference", tr("Difference"), tr("Second run minus first, in percentage points")),
            ),
        )
        self.mode.chosen.connect(lambda _: self._draw())
        self.remark = text_label("", "muted", wrap=True)
        self.maps = (LayerMap(), LayerMap())
        row = hbox(None, *((one, 1) for one in self.maps), spacing=3 * GRID)
        bar = beside(self.mode, self.remark, stretch=self.remark)
        vbox(self, bar, (row, 1), margins=(2 * GRID, GRID, 2 * GRID, GRID))
        self.show_runs(())

    def show_runs(self, runs: Sequence[RunLayers]) -> None:
        """Show the first two of the selected runs."""
        self._runs = tuple(runs)
        explain_disabled(self.mode, enabled=len(runs) > 1, reason=_ONE)
        self._draw()

    def figure(self) -> Figure:
        """Return the shown maps."""
        return tuple(panel for one in self.maps if not one.isHidden() for panel in one.figure())

    def _draw(self) -> None:
        gated = [run for run in self._runs[:2] if run.measured is not None]
        both = difference(*gated) if len(gated) == 2 and self.mode.value == "difference" else None
        first, second = self.maps
        first.setVisible(bool(gated))
        second.setVisible(len(gated) == 2 and both is None)
        self.remark.setText(self._remark(gated, both is not None))
        if both is not None:
            projections, values = both
            reach = max(0.01, float(np.nanmax(np.abs(values), initial=0.0)))
            scale = ColourScale(tr("Difference"), tr("points"), -reach, reach, signed_points, DIFFERENCE)
            title = tr("{second} − {first}", first=gated[0].name, second=gated[1].name)
            first.show_map(title, projections, values, scale)
            return
        for shown, run in zip(self.maps, gated, strict=False):
            if run.measured is not None:
                shown.show_map(run.name, run.projections, run.measured, scale_for("measured", run.measured))

    def _remark(self, gated: Sequence[RunLayers], differ: bool) -> str:
        if not self._runs:
            return _NONE_SELECTED
        if not gated:
            return _NOTHING_GATED
        if len(self._runs) > 2:
            return tr("The first two of {count} selected runs.", count=len(self._runs))
        if len(self._runs) == 2 and len(gated) == 1:
            return tr("Nothing was gated in the other run.")
        if len(gated) == 2 and self.mode.value == "difference" and not differ:
            return tr("The runs have no layers and projections in common, so there is no difference to show.")
        return "" if len(gated) == 2 else tr("Select a second run with Ctrl held to see both.")


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
