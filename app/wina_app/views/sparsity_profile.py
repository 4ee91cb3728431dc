"""The heatmap's numbers over depth: one line per projection."""

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import Qt

from wina_app.views.colour_maps import ColourScale, category
from wina_app.views.data_plot import DataPlot, Trace

_MLP = ("gate", "up", "down")
_LEAST_SPAN = 0.2
"""The part of the colour scale that the plot shows at least, so that equal values do not look like noise."""


class SparsityProfile(DataPlot):
    """Solid lines for attention, dashed ones for the MLP; layers along x."""

    def __init__(self) -> None:
        super().__init__("Profile over depth")

    def show_table(self, projections: Sequence[str], values: np.ndarray, scale: ColourScale) -> None:
        """Show [layers, projections]; a projection without any data has no line."""
        factor = 100.0 if scale.unit in ("%", "points") else 1.0
        layers = list(range(len(values)))
        title = scale.title.lower()
        least = _LEAST_SPAN * factor * (scale.high - scale.low)
        self.set_axes("decoder layer", f"{title} ({scale.unit})" if scale.unit else title, least)
        traces = []
        for column, name in enumerate(projections):
            known = [layer for layer in layers if not np.isnan(values[layer, column])]
            if known:
                traces.append(self._trace(column, name, known, values[known, column], factor, scale))
        self.show_traces(traces)

    def _trace(
        self, column: int, name: str, layers: list[int], values: np.ndarray, factor: float, scale: ColourScale
    ) -> Trace:
        return Trace(
            name,
            category(column),
            layers,
            factor * values,
            lambda index: f"layer {layers[index]}, {name}: {scale.text(values[index])} {scale.unit}".strip(),
            style=Qt.PenStyle.DashLine if name in _MLP else Qt.PenStyle.SolidLine,
        )
