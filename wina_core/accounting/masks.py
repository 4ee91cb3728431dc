"""Which masks a method makes for each token, and over how many inputs: what gating has to be paid for."""

import math
from functools import lru_cache
from typing import NamedTuple

from wina_core.methods import get_method
from wina_core.methods.base import BLOCKS
from wina_core.records import ModelShape
from wina_core.specs import MethodSpec


class Mask(NamedTuple):
    """One mask of one token."""

    inputs: int
    """n, how many inputs it decides on."""
    scaled: bool
    """Whether the score needs a multiplication by a norm."""
    values: int = 0
    """Calibrated values of each input: what it is measured from (SCAP), what it counts as when dropped (mean
    correction), or both; SCAP alone has one for both."""
    added_biases: int = 0
    """Outputs, over all matrices that use the mask, for which replaced inputs make a bias: those of linear layers
    without one, since a bias that is there takes it in."""

    @property
    def numbers(self) -> int:
        """Numbers that are read for it beside the weights, each once for a token."""
        return self.inputs * (self.scaled + self.values) + self.added_biases


def kept_inputs(inputs: int, sparsity: float, method: MethodSpec) -> float:
    """How many of n inputs a mask keeps: n - floor(s n + 1/2), at least 1, where a method keeps the top k (as
    `wina_kernels.selection.kept_inputs`), and the expected n (1 - s) where its cuts are calibrated."""
    if method.selection == "topk":
        return max(1, inputs - math.floor(sparsity * inputs + 0.5))
    return inputs * (1 - sparsity)


def masks(shape: ModelShape, layer: int, targets: tuple[float, ...], method: MethodSpec) -> list[Mask]:
    """The distinct masks of one decoder layer, `targets` being its row of a resolved plan; where all inputs are kept
    there is none.

    Projections with the same input share a mask where their scores and the numbers they keep agree: always under
    `shared`, and under `separate` where the method scores them by the same norms, or by none.
    """
    values = int(get_method(method).centred) + int(method.correction != "none")
    found = []
    for block in _blocks(shape.layout.projections, shape.fused, method):
        groups: dict[tuple[tuple[str, ...], float], list[int]] = {}
        for column, norms in block:
            inputs = shape.inputs[layer][column]
            kept = kept_inputs(inputs, targets[column], method)
            if kept < inputs:
                groups.setdefault((norms, kept), []).append(column)
        found += [_mask(shape, layer, columns, bool(norms), values) for (norms, _), columns in groups.items()]
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


def _mask(shape: ModelShape, layer: int, columns: list[int], scaled: bool, values: int) -> Mask:
    inputs = shape.inputs[layer][columns[0]]
    if not values:
        return Mask(inputs, scaled)
    outputs = sum(
        shape.layout.parameters[layer][column] // inputs
        for column in columns
        if shape.layout.projections[column] not in shape.biased
    )
    return Mask(inputs, scaled, values, outputs)
