"""Measured sparsity of one run over layers and projections."""

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtWidgets import QVBoxLayout, QWidget

from wina_app.theme import GRID
from wina_app.views.colour_bar import ColourBar
from wina_app.views.colour_maps import percent
from wina_app.views.controls import text_label
from wina_app.views.heatmap import Heatmap
from wina_app.views.sparsity_scales import scale_for
from wina_core.plan import Cell

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import LayerMap, MetricRow


_NONE_SELECTED = "Select a row of the table to see what its run dropped in every layer and projection."
_NOTHING_GATED = "Nothing was gated in this run, so there is nothing to count."


class ResultsLayers(QWidget):
    """A heatmap that is only looked at, under the name of its run."""

    def __init__(self) -> None:
        super().__init__()
        self.title = text_label("", "section")
        self.heatmap = Heatmap("Measured sparsity of the selected run")
        self.heatmap.tooltip = self._cell_text
        self._bar = ColourBar()
        self._layers: LayerMap | None = None
        self.remark = text_label("", "muted", wrap=True)
        self._map = QWidget()
        inside = QVBoxLayout(self._map)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(GRID)
        inside.addWidget(self.heatmap, 1)
        inside.addWidget(self._bar)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID)
        column.addWidget(self.title)
        column.addWidget(self.remark)
        column.addWidget(self._map, 1)
        self._rest = column.count()
        column.addStretch(0)
        self.show_layers(None, None)

    def show_layers(self, row: "MetricRow | None", layers: "LayerMap | None") -> None:
        """Show a run; no row when none is selected, no layers when nothing was gated in it."""
        self._layers = layers
        self.title.setText("Layers" if row is None else _title(row))
        self.remark.setText(_NONE_SELECTED if row is None else _NOTHING_GATED)
        self.remark.setVisible(layers is None)
        self._map.setVisible(layers is not None)
        self.layout().setStretch(self._rest, 0 if layers else 1)
        if layers is not None:
            values = np.asarray(layers.values, dtype=float)
            scale = scale_for("measured", values)
            self.heatmap.set_table([str(layer) for layer in range(len(values))], layers.projections)
            self.heatmap.set_values(values, scale)
            self._bar.set_scale(scale)

    def _cell_text(self, cell: Cell) -> str:
        if self._layers is None:
            return ""
        layer, column = cell
        value = self._layers.values[layer][column]
        shown = "no data" if np.isnan(value) else f"{percent(value)} %"
        return f"layer {layer} \N{MIDDLE DOT} {self._layers.projections[column]}\nmeasured: {shown}"


def _title(row: "MetricRow") -> str:
    rotation = "" if row.rotation == "none" else f", {row.rotation}"
    return f"{row.method}{rotation} \N{MIDDLE DOT} {percent(row.target_sparsity)} %"
