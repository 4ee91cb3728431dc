"""The sizes of a model's gated matrices as tables, so that a whole plan is counted at once, and the masks that a method
makes for each token, which gating pays for.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wina_core.model_info.families import EXPERT_PROJECTIONS
from wina_core.model_info.folding import reads_norms
from wina_core.records import ModelShape, ModelSummary
from wina_core.specs import MethodSpec, Selection
from wina_core.specs.methods import get_method
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
    """Return the model's tables, read-only, since they are cached for all its plans."""
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
    sizes = matrices(shape)
    return total(sizes.outputs * sizes.inputs * sizes.held)


def total(table: Table) -> float:
    # numpy's pairwise order would change the last digits of expected counts.
    return float(sum(table.ravel().tolist()))


_SCORED = 0.5
"""Any share below 1: they all score alike."""


class Mask(NamedTuple):
    """One mask of one token."""

    inputs: int
    """n, the number of inputs that it decides on."""
    scaled: bool
    """Whether the score needs a multiplication by a norm."""
    selection: Selection
    """The rule that decides, never `mixed`."""
    values: int = 0
    """Calibrated values of each input: its centre (SCAP), its replacement (mean correction), or both. Our SCAP has one
    for both."""
    added_biases: int = 0
    """Outputs, over all matrices that use the mask, to which replaced inputs or tuned biases add a bias: those of
    linear layers without one, since an existing bias absorbs it."""
    scalars: int = 0
    """Calibrated values common to all inputs (SCAP)."""

    @property
    def numbers(self) -> int:
        """Return the numbers read for it beside the weights, each once a token."""
        return self.inputs * (self.scaled + self.values) + self.scalars + self.added_biases


def kept_inputs(inputs: Table | int, sparsity: Table | float, method: MethodSpec, projections: Sequence[str]) -> Table:
    """Return the kept inputs of n: `Method.kept` for top k, the expected n (1 - s) for all other selections.

    The last axis of the tables is that of the projections, which `mixed` selects in different ways.
    """
    by_top_k = [method.selection_of(name) == "topk" for name in projections]
    exact = np.asarray(get_method(method).kept(inputs, sparsity), dtype=float)
    return np.where(by_top_k, exact, np.multiply(inputs, np.subtract(1.0, sparsity)))


def masks(shape: ModelShape, dropped: Table, method: MethodSpec, shares: Table | None = None) -> Counter[Mask]:
    """Count each mask over all decoder layers; `dropped` is `ResolvedPlan.masks`, float64 [layers, projections].

    Where all inputs are kept there is no mask, and each active expert has masks of its own. Projections with the same
    input share a mask where their scores and kept numbers agree: always under `shared`, and under `separate` where the
    method scores them by the same norms or by none. `shares` are a plan's own rho, float64 like `dropped`, for methods
    whose scores depend on them.
    """
    if shares is not None and get_method(method).scores_by_shares:
        # A share of 1 scores unlike all others, which score alike: two kinds of masks are counted apart.
        whole = shares == 1
        kinds = ((1.0, np.where(whole, dropped, 0.0)), (_SCORED, np.where(whole, 0.0, dropped)))
        return sum(
            (masks(shape, of_kind, method.model_copy(update={"rho": rho})) for rho, of_kind in kinds), Counter[Mask]()
        )
    centring = get_method(method).centring
    values, scalars = int(centring == "inputs") + int(method.correction == "mean"), int(centring == "matrix")
    inputs, copies, biases = (
        matrices(shape).inputs,
        matrices(shape).copies,
        _biases(shape, replaced=centring != "none" or method.correction == "mean", tuned=method.correction == "tuned"),
    )
    kept_counts = kept_inputs(inputs, dropped, method, shape.layout.projections)
    gated = kept_counts < inputs
    counts: Counter[Mask] = Counter()
    for block in _blocks(shape.layout.projections, shape.fused, shape.folded, method):
        for position, (column, norms, scaled) in enumerate(block):
            selection = method.selection_of(shape.layout.projections[column])
            same = {
                other: gated[:, other] & (kept_counts[:, other] == kept_counts[:, column])
                for other, its, _ in block
                if its == norms
            }
            # A mask is counted with the first projection of the block that uses it; the later ones share it.
            earlier = [same[other] for other, its, _ in block[:position] if its == norms]
            first = gated[:, column] & ~np.logical_or.reduce(earlier) if earlier else gated[:, column]
            added = sum(same[other] * biases[:, other] for other in same)
            numbers = (table.tolist() for table in (inputs[first, column], added[first], copies[first, column]))
            for over, outputs, count in zip(*numbers, strict=True):
                counts[Mask(int(over), scaled, selection, values, int(outputs), scalars)] += int(count)
    return counts


@lru_cache(maxsize=64)
def _blocks(
    projections: tuple[str, ...], fused: bool, folded: tuple[str, ...], method: MethodSpec
) -> tuple[tuple[tuple[int, tuple[str, ...], bool], ...], ...]:
    """Return (column, norms of its mask, whether numbers weigh its score) of projections that may share a mask, by
    block; alike in all layers."""
    rule = get_method(method)
    if rule.by_gate_activation:  # one mask, of the gate's outputs, for rows of up and columns of down
        return (((projections.index("down"), (), False),),)
    blocks = []
    for whole in BLOCKS:
        block = tuple(name for name in whole if name in projections)
        by_norms = rule.masks_by_norms(block, fused=fused and len(block) > 1)
        blocks.append(
            tuple(
                (projections.index(name), norms, reads_norms(rule, block, norms, folded=name in folded))
                for name, norms in by_norms.items()
            )
        )
    return tuple(blocks)


def _biases(shape: ModelShape, *, replaced: bool, tuned: bool) -> Table:
    """Return the outputs of each matrix to which replaced inputs add a bias, or that have a tuned one: experts' have
    none."""
    names = shape.layout.projections
    unbiased = np.array([name not in shape.biased for name in names])
    of_experts = np.array([name not in BLOCKS[0] + BLOCKS[1] for name in names])
    routed = np.array([count > 0 for count in shape.experts or [0] * shape.layout.layers])
    added = replaced | (tuned & ~(routed[:, None] & of_experts))
    return matrices(shape).outputs * unbiased * added
