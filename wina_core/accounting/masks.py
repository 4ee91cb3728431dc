"""Which masks a method makes for each token, and over how many inputs: what gating has to be paid for."""

from collections import Counter
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from wina_core.accounting.matrices import Table, matrices
from wina_core.methods import get_method
from wina_core.methods.base import BLOCKS
from wina_core.records import ModelShape
from wina_core.specs import MethodSpec

_SCORED = 0.5
"""Any share below 1: all of them score alike."""


class Mask(NamedTuple):
    """One mask of one token."""

    inputs: int
    """n, how many inputs it decides on."""
    scaled: bool
    """Whether the score needs a multiplication by a norm."""
    values: int = 0
    """Calibrated values of each input: what it is measured from (SCAP), what it counts as when dropped (mean
    correction), or both; SCAP of our own has one for both."""
    added_biases: int = 0
    """Outputs, over all matrices that use the mask, for which replaced inputs make a bias: those of linear layers
    without one, since a bias that is there takes it in."""
    scalars: int = 0
    """Calibrated values that all inputs share (SCAP)."""

    @property
    def numbers(self) -> int:
        """Numbers that are read for it beside the weights, each once for a token."""
        return self.inputs * (self.scaled + self.values) + self.scalars + self.added_biases


def kept_inputs(inputs: Table | int, sparsity: Table | float, method: MethodSpec) -> Table:
    """Return how many of n inputs a mask keeps: `Method.kept` of top k, and the expected n (1 - s) where thresholds
    are calibrated. Of tables, for each of their cells."""
    if method.selection == "topk":
        return np.asarray(get_method(method).kept(inputs, sparsity), dtype=float)
    return np.multiply(inputs, np.subtract(1.0, sparsity))


def masks(shape: ModelShape, dropped: Table, method: MethodSpec, shares: Table | None = None) -> Counter[Mask]:
    """How many there are of each mask in all decoder layers, `dropped` being what `mask_plan` says, float64
    [layers, projections]; where all inputs are kept there is none.

    Projections with the same input share a mask where their scores and the numbers they keep agree: always under
    `shared`, and under `separate` where the method scores them by the same norms, or by none. `shares` are a plan's own
    rho, float64 like `dropped`, for methods whose scores depend on them.
    """
    if shares is not None and get_method(method).scores_by_shares:
        whole = shares == 1
        kinds = ((1.0, np.where(whole, dropped, 0.0)), (_SCORED, np.where(whole, 0.0, dropped)))
        return sum(
            (masks(shape, of_kind, method.model_copy(update={"rho": rho})) for rho, of_kind in kinds), Counter[Mask]()
        )
    centring, corrected = get_method(method).centring, method.correction != "none"
    values, scalars = int(centring == "inputs") + int(corrected), int(centring == "matrix")
    inputs, biases = matrices(shape).inputs, _biases(shape, centring != "none" or corrected)
    kept = kept_inputs(inputs, dropped, method)
    gated = kept < inputs
    found: Counter[Mask] = Counter()
    for block in _blocks(shape.layout.projections, shape.fused, method):
        for place, (column, norms) in enumerate(block):
            same = {
                other: gated[:, other] & (kept[:, other] == kept[:, column]) for other, its in block if its == norms
            }
            earlier = [same[other] for other, its in block[:place] if its == norms]
            first = gated[:, column] & ~np.logical_or.reduce(earlier) if earlier else gated[:, column]
            added = sum(same[other] * biases[:, other] for other in same)
            counts = Counter(zip(inputs[first, column].tolist(), added[first].tolist(), strict=True))
            for (over, outputs), count in counts.items():
                found[Mask(int(over), bool(norms), values, int(outputs), scalars)] += count
    return found


@lru_cache(maxsize=64)
def _blocks(
    projections: tuple[str, ...], fused: bool, method: MethodSpec
) -> tuple[tuple[tuple[int, tuple[str, ...]], ...], ...]:
    """(column, norms that its mask is made by) of what may share a mask, block by block; the same in every layer."""
    rule = get_method(method)
    if rule.by_gate_activation:  # one mask, of the gate's outputs, for rows of up and columns of down
        return (((projections.index("down"), ()),),)
    present = [tuple(name for name in block if name in projections) for block in BLOCKS]
    blocks = [rule.masks_by_norms(block, fused=fused and len(block) > 1) for block in present]
    return tuple(tuple((projections.index(name), norms) for name, norms in block.items()) for block in blocks)


def _biases(shape: ModelShape, replaced: bool) -> Table:
    """Outputs of each matrix for which replaced inputs make a bias."""
    unbiased = [name not in shape.biased for name in shape.layout.projections]
    return matrices(shape).outputs * unbiased * replaced
