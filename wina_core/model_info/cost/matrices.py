"""The sizes of a model's gated matrices as tables, so that a whole plan is counted at once."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from wina_core.model_info.families import EXPERT_PROJECTIONS
from wina_core.records import ModelShape, ModelSummary
from wina_core.specs.methods.base import BLOCKS

Table = npt.NDArray[np.float64]
"""[layers, projections]; whole numbers of them are exact up to 2^53."""


@dataclass(frozen=True, eq=False)
class Matrices:
    """The sizes of every gated matrix W [m, n]; of experts, of those that a token reads together."""

    outputs: Table
    """m, of all copies."""
    inputs: Table
    """n."""
    together: Table
    """Outputs of the linear layer that holds it: its own, those of the fused one, or those of one expert."""
    copies: Table
    """Matrices of the same size that a token reads: 1, or the active experts."""
    held: Table
    """Weights held for each weight read: 1, or all experts for each active one."""


@lru_cache(maxsize=8)
def matrices(shape: ModelShape) -> Matrices:
    """Return the model's tables, read-only and cached for all its plans."""
    names = shape.layout.projections
    inputs = np.array(shape.inputs, dtype=float)
    outputs = np.array(shape.layout.parameters, dtype=float) // inputs
    copies, held = np.ones_like(outputs), np.ones_like(outputs)
    for layer, experts in enumerate(shape.experts):
        columns = [index for index, name in enumerate(names) if experts and name in EXPERT_PROJECTIONS]
        copies[layer, columns] = shape.active_experts
        held[layer, columns] = experts / shape.active_experts
    together = outputs / copies
    for block in BLOCKS if shape.fused else ():
        columns = [index for index, name in enumerate(names) if name in block]
        together[:, columns] = outputs[:, columns].sum(axis=1, keepdims=True)
    for table in (outputs, inputs, together, copies, held):
        table.setflags(write=False)
    return Matrices(outputs, inputs, together, copies, held)


def held_by_projection(summary: ModelSummary) -> dict[str, int]:
    """Return the number of weights of each projection over all layers, those of all experts included."""
    weights = np.array(summary.layout.parameters, dtype=float)
    if summary.shape is not None:
        weights *= matrices(summary.shape).held
    return dict(zip(summary.layout.projections, map(round, weights.sum(axis=0).tolist()), strict=True))


def held_weights(shape: ModelShape) -> float:
    """Return the number of gated weights that the model holds, those of all experts included."""
    sizes = matrices(shape)
    return total(sizes.outputs * sizes.inputs * sizes.held)


def total(table: Table) -> float:
    """Return the sum in the order of the matrices: numpy's order changes the last digits of expected counts."""
    return float(sum(table.ravel().tolist()))
