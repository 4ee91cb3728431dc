"""Measured and target sparsity of the selected runs in each layer and projection: read, as maps, and over depth."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QWidget

from wina_app.heatmap.heatmap import Heatmap
from wina_app.pages.results.plots.panel import PlotPanel
from wina_app.pages.results.runs import name_runs
from wina_app.plots.axes import WholeNumberAxis
from wina_app.plots.colour_bar import ColourBar
from wina_app.plots.colour_maps import ColourScale, category
from wina_app.plots.data_plot import DataPlot
from wina_app.plots.plot_items import MARKERS, Trace
from wina_app.shared.heatmap_tables import scale_for
from wina_app.shared.measured_sparsity import stored_runs, with_means
from wina_app.style.theme import GRID, method_colour
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.combo_box import ComboBox
from wina_app.widgets.controls import ElidedLabel, text_label
from wina_core.analysis.results.measured import DEFAULT_COUNT, Count
from wina_core.report.drawing import Figure
from wina_core.specs.plans import PROJECTIONS, Cell, SparsityPlan, UniformSparsity

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import MetricRow, Store

Kind = Literal["target", "measured"]
MOST_RUNS = 8
"""Most runs of a selection that are shown together; more could not be distinguished."""
MEAN, EACH = "mean", "each"
"""Choices beside the projections: the plain mean over those that are gated, and all of them."""


@dataclass(frozen=True, eq=False)
class RunLayers:
    """One run over depth; both tables are [layers, projections], NaN where there is no data."""

    run: str
    name: str
    method: str
    projections: tuple[str, ...]
    target: np.ndarray | None
    """None where unknown, as for an allocation without results."""
    measured: np.ndarray | None
    """None where nothing was gated."""


def read_layers(store: "Store", rows: "Sequence[MetricRow]", count: Count = DEFAULT_COUNT) -> tuple[RunLayers, ...]:
    """Read the layers of each run, given by one of its rows, on the store's thread."""
    rows = with_means(rows[:MOST_RUNS], stored_runs(store, rows[:MOST_RUNS]))
    return tuple(_read(store, row, name) for row, name in zip(rows, name_runs(rows, count), strict=True))


def _read(store: "Store", row: "MetricRow", name: str) -> RunLayers:
    layer_map, spec = store.layer_map(row.run), store.run_spec(row.run)
    plan = spec.plan if spec is not None else None
    measured = None if layer_map is None else np.asarray(layer_map.values, dtype=float)
    projections = layer_map.projections if layer_map is not None else ()
    target: np.ndarray | None = None
    if isinstance(plan, SparsityPlan) and measured is not None:
        target = _of_table(plan, projections, measured.shape)
    elif isinstance(plan, UniformSparsity) and measured is not None:
        target = np.where(np.isnan(measured), np.nan, plan.sparsity)  # of the gated projections alone
    elif plan is not None and (targets := store.layer_map(row.run, "target")) is not None:
        target = np.asarray(targets.values, dtype=float) if targets.projections == projections else None
    return RunLayers(row.run, name, row.method.partition(" ")[0], projections, target, measured)


def _of_table(plan: SparsityPlan, projections: Sequence[str], shape: tuple[int, ...]) -> np.ndarray | None:
    table = np.asarray(plan.sparsity, dtype=float)
    columns = {name: table[:, at] for at, name in enumerate(plan.layout.projections)}
    if len(table) != shape[0]:
        return None
    return np.stack([columns.get(name, np.full(len(table), np.nan)) for name in projections], axis=1)


_NONE_SELECTED = "Select a row of the table to see what its run dropped in every layer and projection."
_NOTHING_GATED = "Nothing was gated in this run, so there is nothing to count."


class LayerHeatmap(QWidget):
    """A read-only heatmap under its title."""

    def __init__(self) -> None:
        super().__init__()
        self.title = ElidedLabel("section")
        self.heatmap = Heatmap("Measured sparsity of the selected run")
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
        # The label may show its text elided.
        return tuple(replace(panel, title=self.title.whole()) for panel in self.heatmap.figure())

    def _cell_text(self, cell: Cell) -> str:
        layer, column = cell
        value, scale = self._values[layer, column], self._scale
        assert scale is not None  # there are cells
        text = "no data" if np.isnan(value) else f"{scale.text(value)} {scale.unit}"
        return f"layer {layer} · {self._projections[column]}\n{scale.title.lower()}: {text}"


class ResultsLayers(QWidget):
    """One map, or two beside each other."""

    def __init__(self) -> None:
        super().__init__()
        self._runs: tuple[RunLayers, ...] = ()
        self.remark = text_label("", "muted", wrap=True)
        self.maps = (LayerHeatmap(), LayerHeatmap())
        row = hbox(None, *((layer_map, 1) for layer_map in self.maps), spacing=3 * GRID)
        vbox(self, self.remark, (row, 1), margins=(2 * GRID, GRID, 2 * GRID, GRID))
        self.show_runs(())

    def show_runs(self, runs: Sequence[RunLayers]) -> None:
        """Show the first two of the selected runs."""
        gated = [run for run in runs[:2] if run.measured is not None]
        for number, layer_map in enumerate(self.maps):
            layer_map.setVisible(number < len(gated))
        for layer_map, run in zip(self.maps, gated, strict=False):
            if run.measured is not None:
                layer_map.show_map(run.name, run.projections, run.measured, scale_for("measured", run.measured))
        self.remark.setText(_remark(runs, gated))

    def figure(self) -> Figure:
        return tuple(panel for layer_map in self.maps if not layer_map.isHidden() for panel in layer_map.figure())


def _remark(runs: Sequence[RunLayers], gated: Sequence[RunLayers]) -> str:
    if not runs:
        return _NONE_SELECTED
    if not gated:
        return _NOTHING_GATED
    if len(runs) > 2:
        return f"The first two of {len(runs)} selected runs."
    if len(runs) == 2 and len(gated) == 1:
        return "Nothing was gated in the other run."
    return "" if len(gated) == 2 else "Select a second run with Ctrl held to see both."


_LEAST_SPAN = 10.0
"""Fewest points of sparsity on the y axis, so that equal values do not look like noise."""


class DepthPlot(DataPlot):
    """Dashed targets and solid measured sparsities, with the run as marker."""

    def __init__(self) -> None:
        super().__init__("Allocation: sparsity over depth")
        layers = WholeNumberAxis("bottom")
        self.getPlotItem().setAxisItems({"bottom": layers})
        self._drawn: tuple[tuple[str, ...], str] | None = None

    def show_profiles(self, runs: Sequence[RunLayers], projection: str) -> None:
        """Draw the mean over projections, one of them or each; a zoom stays while the same runs are shown."""
        quantity = {MEAN: "mean of projections", EACH: "each projection"}.get(projection, projection)
        self.set_axes("decoder layer", f"sparsity, {quantity} (%)", _LEAST_SPAN)
        self.show_traces(profile_traces(runs, projection))
        before, self._drawn = self._drawn, (tuple(run.run for run in runs), projection)
        if before != self._drawn:
            self.reset_zoom()


def profile_traces(runs: Sequence[RunLayers], projection: str) -> list[Trace]:
    """Return target and measured sparsity over depth, in percent, of the mean, of one projection or of each."""
    traces = []
    for index, run in enumerate(runs):
        for name in run.projections if projection == EACH else (projection,):
            kinds: tuple[tuple[Kind, np.ndarray | None], ...] = ("target", run.target), ("measured", run.measured)
            for kind, table in kinds:
                values = None if table is None else _column(run, table, name)
                if values is None or np.isnan(values).all():
                    continue
                label: str = kind
                colour = QColor(method_colour(run.method))
                if projection == EACH:
                    label, colour = f"{name}, {kind}", _projection_colour(name)
                trace = _trace(kind, values, f"{run.name}, {label}", colour, MARKERS[index % len(MARKERS)])
                traces.append(trace if len(runs) > 1 else replace(trace, name=label))
    return traces


def _trace(kind: Kind, values: np.ndarray, name: str, colour: QColor, marker: str) -> Trace:
    layers = np.flatnonzero(~np.isnan(values)).tolist()
    percent = (100.0 * values[layers]).tolist()
    return Trace(
        name=name,
        colour=colour,
        x=layers,
        y=percent,
        readout=lambda index: f"{name}: layer {layers[index]}, {percent[index]:.2f} %",
        symbol=marker if kind == "measured" else "",
        style=Qt.PenStyle.DashLine if kind == "target" else Qt.PenStyle.SolidLine,
    )


def _column(run: RunLayers, table: np.ndarray, name: str) -> np.ndarray | None:
    if name == MEAN:
        counts = (~np.isnan(table)).sum(axis=1)
        means = np.full(len(table), np.nan)
        # np.nanmean would warn of layers in which nothing is known.
        np.divide(np.nansum(table, axis=1), counts, out=means, where=counts > 0)
        return means
    return table[:, run.projections.index(name)] if name in run.projections else None


def _projection_colour(name: str) -> QColor:
    # By name: a projection keeps its colour whichever others are drawn.
    return category(PROJECTIONS.index(name) if name in PROJECTIONS else len(PROJECTIONS))


class AllocationPanel(PlotPanel):
    """Target and measured sparsity of the selected runs over depth."""

    def __init__(self) -> None:
        self.projection = ComboBox("Projection")
        self.plot = DepthPlot()
        super().__init__((("Projection", self.projection),), self.plot)
        self._runs: tuple[RunLayers, ...] = ()
        self.projection.activated.connect(lambda: self._draw(self.projection.currentData()))
        self.show_profiles(())

    def show_profiles(self, runs: Sequence[RunLayers]) -> None:
        self._runs = tuple(runs)
        chosen = self.projection.currentData()
        choices = (MEAN, EACH, *dict.fromkeys(name for run in runs for name in run.projections))
        named = {MEAN: "mean of all", EACH: "each"}
        self.projection.fill(
            [(named.get(choice, choice), choice) for choice in choices], chosen if chosen in choices else MEAN
        )
        gated = any(run.projections for run in runs)
        some = "Nothing was gated in the selected runs." if runs else "Select rows of the table to see their runs."
        self.note.setText("" if gated else some)
        self._draw(self.projection.currentData())

    def _draw(self, projection: str) -> None:
        self.plot.show_profiles(self._runs, projection)
