"""Views of a GateRecord: masks at any target, their thresholds, energies and agreement."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from wina_core.records.gates import GateDecision, GateRecord
from wina_core.specs import MethodSpec
from wina_core.specs.gates import threshold_at
from wina_core.specs.methods import get_method

Array = npt.NDArray[Any]

COMPARED: dict[str, MethodSpec] = {
    "teal": MethodSpec(name="teal"),
    "wina": MethodSpec(name="wina"),
    "wina-shared": MethodSpec(name="wina", masks="shared"),
    "wina-released": MethodSpec(name="wina", variant="as_released"),
    "rsparse": MethodSpec(name="rsparse"),
    "rsparse-released": MethodSpec(name="rsparse", variant="as_released"),
    "cats": MethodSpec(name="cats"),
    "scap": MethodSpec(name="scap"),
    "scap-own": MethodSpec(name="scap", variant="own"),
}
"""Methods to compare in one cell, by short name; each works with any selection."""
LIVE = ("topk", "threshold")
"""Selections whose masks are computed here for any target, to the bit as gating computes them. The others compare keys
after roundings that only torch repeats."""


class InspectedGate:
    """One method in an inspected cell."""

    def __init__(self, decision: GateDecision, projection: str, inputs: Array, norms: Array) -> None:
        self.decision = decision
        self.method = decision.asked.method
        self._selection = self.method.selection_of(projection)
        self.target = decision.asked.target
        """The target that the engine used."""
        self.magnitudes: Array = inputs if decision.magnitudes is None else decision.magnitudes.array()
        """The weighed magnitudes, [tokens, n]: |x_i|, |x_i - mode_i| or |act(W_gate x)_i|."""
        self.scale: Array | None = None if decision.scale is None else decision.scale.array()
        """c [n]; None for ones."""
        self.mask: Array = decision.mask.array()
        """The engine's mask at `target`, bool [tokens, n]."""
        self._taken = np.square((inputs if decision.scored == "activation" else self.magnitudes) * norms)
        self._whole = float(np.square(inputs * norms).sum(dtype=np.float64))

    @cached_property
    def scores(self) -> Array:
        """Return magnitudes * c, [tokens, n]."""
        # In the dtype of the scale, so that masks are equal to the bit.
        return self.magnitudes if self.scale is None else self.magnitudes.astype(self.scale.dtype) * self.scale

    def masked_fraction(self, target: float) -> float:
        """Return the fraction of inputs that the mask drops; more than the target beside a low-rank part."""
        return get_method(self.method).mask_sparsity(target, self.decision.asked.rho)

    def mask_at(self, target: float) -> Array | None:
        """Return the mask at a target, bool [tokens, n]; None where only the engine can compute it."""
        if target == self.target:
            return self.mask
        if self._selection not in LIVE:
            return None
        fraction, rule = self.masked_fraction(target), get_method(self.method)
        kept_count = int(rule.kept(self.scores.shape[1], fraction))
        if self._selection == "topk":
            return highest(self.scores, kept_count, ties=rule.keeps_ties)
        # Not `>`: NaN is kept, as in gating.
        mask: Array = ~(self.scores <= self._threshold(fraction))
        fewest = self.method.fewest(kept_count)
        few = mask.sum(axis=1) < fewest
        if few.any():
            mask[few] = highest(self.scores[few], fewest)
        return mask

    def thresholds(self, target: float, mask: Array) -> Array:
        """Return the lowest score that each token keeps under a mask of this target, at most the common threshold.

        float64 [tokens]; NaN where nothing is dropped.
        """
        some = ~mask.all(axis=1)
        lowest = np.where(mask, self.scores, np.inf).min(axis=1, initial=np.inf)
        if self._selection == "threshold":
            lowest = np.minimum(lowest, self._threshold(self.masked_fraction(target)))
        return np.where(some & np.isfinite(lowest), lowest, np.nan).astype(np.float64)

    def kept_energy(self, mask: Array) -> float:
        """Return 1 - the dropped share of the sum of (|x_i| ||W[:, i]||_2)^2 over the tokens.

        A mean correction, which replaces dropped inputs by their means, loses less than this counts.
        """
        lost = float(self._taken.sum(where=~mask, dtype=np.float64))
        return 1.0 - lost / self._whole if self._whole > 0 else 1.0

    def _threshold(self, fraction: float) -> float:
        assert self.decision.quantiles is not None  # every threshold has them
        return threshold_at(self.decision.quantiles.array(), fraction)


class InspectedCell:
    """An unpacked record."""

    def __init__(self, record: GateRecord) -> None:
        self.record = record
        self.inputs: Array = record.inputs.array()
        """|x| [tokens, n]."""
        self.norms: Array = record.norms.array()
        """||W[:, i]||_2 [n]."""
        self.gates = tuple(InspectedGate(gate, record.projection, self.inputs, self.norms) for gate in record.gates)


def highest(scores: Array, keep: int, ties: bool = False) -> Array:
    """Return True at the `keep` highest of each row of nonnegative scores [..., n], the lower index first among equals.

    `wina_kernels.selection.top_k_mask` does the same. `ties` also keeps all scores that equal the last.
    """
    cut = np.partition(scores, scores.shape[-1] - keep, axis=-1)[..., scores.shape[-1] - keep, None]
    mask: Array = scores >= cut
    tied = mask.sum(-1) > keep
    if tied.any() and not ties:
        above, equal = scores[tied] > cut[tied], scores[tied] == cut[tied]
        room = keep - above.sum(-1, keepdims=True)
        mask[tied] = above | (equal & (equal.cumsum(-1) <= room))
    return mask


def agreement(masks: Sequence[Array]) -> tuple[Array, Array]:
    """Return the agreement of every two masks of one shape, as two tables float64 [masks, masks].

    The first has the share of inputs on which both decide alike; the second the Jaccard index of the kept inputs, 1
    where neither keeps any.
    """
    flat = np.stack([mask.reshape(-1) for mask in masks]).astype(np.float32)  # exact: fewer than 2^24 inputs
    both = (flat @ flat.T).astype(np.float64)
    kept_counts = np.diag(both)
    either = kept_counts[:, None] + kept_counts[None, :] - both
    alike = 1.0 - (either - both) / flat.shape[1]
    return alike, np.divide(both, either, out=np.ones_like(both), where=either > 0)
