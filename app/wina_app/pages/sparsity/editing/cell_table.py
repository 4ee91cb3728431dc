"""The values of a plan's cells, whichever kind they are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from wina_core.specs.plans import Cell, PlanLayout, Rows, with_values


@dataclass(frozen=True)
class CellTable:
    """One value per decoder layer and projection."""

    layout: PlanLayout
    rows: Rows
    """[layer][projection]."""
    provenance: str = "edited"

    @classmethod
    def uniform(cls, layout: PlanLayout, value: float) -> "CellTable":
        """Return a table with the same value in every cell."""
        return cls(layout, layout.uniform(value), "uniform")

    @property
    def budget(self) -> float:
        """Return the mean value weighted by each matrix's number of weights."""
        return float(np.average(self.array, weights=self.weights))

    @property
    def array(self) -> np.ndarray:
        """Return the values, float64 [layers, projections]."""
        return np.asarray(self.rows, dtype=float)

    @property
    def weights(self) -> np.ndarray:
        """Return each matrix's number of weights, float64 [layers, projections]."""
        return np.asarray(self.layout.parameters, dtype=float)

    @property
    def cells(self) -> frozenset[Cell]:
        """Return all cells."""
        return frozenset((row, column) for row, values in enumerate(self.rows) for column in range(len(values)))

    def with_cells(self, values: Mapping[Cell, float]) -> "CellTable":
        """Return an edited copy with new values in the given cells."""
        return CellTable(self.layout, with_values(self.rows, values))

    def with_array(self, values: np.ndarray) -> "CellTable":
        """Return a copy of the same provenance with other values, float64 [layers, projections]."""
        return replace(self, rows=tuple(map(tuple, values.tolist())))

    def span(self, cells: frozenset[Cell]) -> tuple[float, float] | None:
        """Return the lowest and highest value of the cells; None without cells."""
        values = [self.rows[row][column] for row, column in cells]
        return (min(values), max(values)) if values else None
