"""Stored data of a sparsity plan: measured sparsities, and calibrated curves of its cells."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from wina_app.shared.cell_curves import CellCurves

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import LayerMap


@dataclass(frozen=True, eq=False)
class StoredCellData:
    """Stored data of each cell under one model, rotation and method."""

    stamp: tuple[float, ...] = ()
    """Identifies the calibrations read."""
    thresholds: CellCurves | None = None
    """Calibrated thresholds of the method's selection, over the mask's sparsity."""
    errors: CellCurves | None = None
    """Relative output errors, over the target."""
    energies: CellCurves | None = None
    """Kept energies, over the target."""
    divergences: CellCurves | None = None
    """Square roots of the KL divergence that each cell causes alone, between which they are nearly linear."""
    residuals: np.ndarray | None = None
    """Off-diagonal energy of W^T W, float64 [layers, projections]."""
    spreads: np.ndarray | None = None
    """Standard deviation over mean of the column norms, float64 [layers, projections]."""


@dataclass(frozen=True, eq=False)
class StoredPlanData:
    """Stored data of one plan and its cells."""

    measured: "LayerMap | None" = None
    """Measured sparsity of the latest run with exactly this model, rotation, method and plan."""
    cells: StoredCellData = field(default_factory=StoredCellData)
