"""The sizes of a model's gated matrices as tables, so that a whole plan is counted at once."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from wina_core.methods.base import BLOCKS
from wina_core.records import ModelShape

Table = npt.NDArray[np.float64]
"""[layers, projections]; whole numbers of them are exact up to 2^53."""


@dataclass(frozen=True, eq=False)
class Matrices:
    """The sizes of every gated matrix W [m, n]."""

    outputs: Table
    """m."""
    inputs: Table
    """n."""
    together: Table
    """Outputs of the linear layer that holds it: its own, or those of the fused one."""


@lru_cache(maxsize=8)
def matrices(shape: ModelShape) -> Matrices:
    """Return the model's tables, read-only and cached for all its plans."""
    names = shape.layout.projections
    inputs = np.array(shape.inputs, dtype=float)
    outputs = np.array(shape.layout.parameters, dtype=float) // inputs
    together = outputs.copy()
    for block in BLOCKS if shape.fused else ():
        columns = [index for index, name in enumerate(names) if name in block]
        together[:, columns] = outputs[:, columns].sum(axis=1, keepdims=True)
    for table in (outputs, inputs, together):
        table.setflags(write=False)
    return Matrices(outputs, inputs, together)


def total(table: Table) -> float:
    """Return the sum in the order of the matrices: numpy's order changes the last digits of expected counts."""
    return float(sum(table.ravel().tolist()))
