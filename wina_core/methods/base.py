"""What a method is: which matrices it gates, how it scores their inputs, and what it adds to the output. Light."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from wina_core.compute.scoring.column_norms import kept_column_norms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from wina_core.compute.models.view import LayerView
    from wina_core.specs import MethodSpec, Variant

BLOCKS = (("q", "k", "v"), ("o",), ("gate", "up"), ("down",))
"""Projections that read the same input, and may therefore share a mask."""

Centring = Literal["none", "inputs", "matrix"]
"""What inputs are scored by their distance from: 0, a calibrated centre of each input, or one of the whole matrix."""


class Method:
    """A gate rule y = W (m * x), with a mask m per token that keeps the inputs of highest score |x_i| * c_i.

    How many are kept is the plan's business; a method says which matrices it gates and with which c. All that others
    ask about it (gates, calibration, accounting, allocators, the window) is answered here, so that a subclass and its
    line in the registry are a whole method.
    """

    name: ClassVar[str]
    variants: ClassVar[tuple[Variant, ...]] = ("paper",)
    """The readings it has: the paper's text, the authors' released code where it differs, or one of our own."""
    by_gate_activation: ClassVar[bool] = False
    """Whether the MLP's gate activation is scored instead of the matrix's own input (CATS)."""
    keeps_ties: ClassVar[bool] = False
    """Whether top k keeps every input that scores like the k-th, instead of exactly k (LaRoSA)."""
    projections: tuple[str, ...] | None = None
    """Canonical names of what it gates; None for all."""
    centring: Centring = "none"
    """A dropped input counts as the centre that its score is measured from (SCAP)."""
    signed_thresholds: bool = False
    """Whether the threshold of a target s is the inverse CDF of the signed values at (1 + s) / 2, instead of that of
    the scores at s (TEAL as released)."""
    scores_by_shares: bool = False
    """Whether a plan's own rho decides what a matrix's scores are."""
    default_rho: float | None = None
    """Share of the kept budget that goes to the mask, unless the spec or the plan says otherwise, where the rest buys a
    low-rank part; None for a method without one."""

    def __init__(self, spec: MethodSpec) -> None:
        self.spec = spec

    @property
    def rho(self) -> float | None:
        """The spec's share of the mask, or the default one; None without a low-rank part."""
        return self.default_rho if self.spec.rho is None else self.spec.rho

    @property
    def scores_by_norms(self) -> bool:
        """Whether matrices with the same input are scored by norms of their own, so that sharing a mask matters."""
        return any(self.norms_of(name, block, fused=False) for block in BLOCKS for name in block)

    def kept(self, inputs: Any, sparsity: Any) -> Any:
        """Return K, how many of n inputs top k keeps: n - floor(s n + 1/2), at least 1; numbers or arrays alike.

        Released code that has a top k keeps `released_kept` instead.
        """
        if self.spec.variant == "as_released":
            return released_kept(inputs, sparsity)
        return np.maximum(1, inputs - np.floor(np.multiply(sparsity, inputs) + 0.5))

    def cell_target(self, name: str, sparsity: float) -> float:  # noqa: ARG002 - for methods with levels of their own
        """Return what a uniform target is in the matrices of that name."""
        return sparsity

    def gates(self, name: str) -> bool:
        """Whether it gates the projections of that name."""
        return self.projections is None or name in self.projections

    def norms_of(self, name: str, block: tuple[str, ...], *, fused: bool) -> tuple[str, ...]:  # noqa: ARG002 - for others
        """The projections whose column norms weigh the score of `name`; none for c = 1.

        c_i^2 is the sum of ||W[:, i]||_2^2 over them. They are of `block`, all those of a model that read the same
        input; `fused` says that these are rows of a single matrix.
        """
        return ()

    def masks_by_norms(self, block: tuple[str, ...], *, fused: bool) -> dict[str, tuple[str, ...]]:
        """What makes the masks of a block's gated projections differ: `norms_of` each, or of all where one is shared.

        Those with equal values here and equal targets use the same mask.
        """
        own = {name: self.norms_of(name, block, fused=fused) for name in block if self.gates(name)}
        if self.spec.masks == "separate":
            return own
        return dict.fromkeys(own, tuple(dict.fromkeys(norm for norms in own.values() for norm in norms)))

    def scales(self, layer: LayerView, rho: Mapping[str, float] | None = None) -> dict[str, Tensor | None]:  # noqa: ARG002
        """c [n] for every projection of the layer that is gated, by canonical name; None stands for c = 1.

        At least float32. Shared masks sum c_i^2 over the gated matrices that read the same input. Those that read the
        same input and are given the very same object share one mask wherever their targets agree. `rho` are the plan's
        shares of the mask by name, for methods whose scores depend on them.
        """
        scales: dict[str, Tensor | None] = {}
        for whole in BLOCKS:
            block = tuple(name for name in whole if name in layer.projections)
            parts = [layer.projections[name] for name in block]
            fused = len(parts) > 1 and parts[0].linear is parts[1].linear
            named = {name: self.norms_of(name, block, fused=fused) for name in block if self.gates(name)}
            made = {
                norms: _root_sum([kept_column_norms(layer.projections[each]) for each in norms])
                for norms in set(named.values())
            }
            own = {name: made[norms] for name, norms in named.items()}
            scales |= own if self.spec.masks == "separate" else _shared(own)
        return scales

    def mask_sparsity(self, sparsity: float, rho: float | None) -> float:  # noqa: ARG002 - for methods with a low-rank part
        """The fraction of inputs that the mask drops, given that of the weights that are to be left out."""
        return sparsity

    def rank(self, name: str, shape: tuple[int, int], sparsity: float, rho: float | None) -> int:  # noqa: ARG002 - likewise
        """Rank of what is added for the dropped inputs of the matrix W [m, n] of that name; 0 for nothing."""
        return 0


def released_kept(inputs: Any, sparsity: Any) -> Any:
    """Return int(n (1 - s)) in double precision, at least 1; numbers or arrays alike."""
    return np.maximum(1, np.trunc(inputs * (1 - np.asarray(sparsity))))


def _shared(own: dict[str, Tensor | None]) -> dict[str, Tensor | None]:
    norms = [scale for scale in own.values() if scale is not None]
    return dict.fromkeys(own, _root_sum(norms, ones=len(own) - len(norms)))


def _root_sum(norms: Sequence[Tensor], ones: int = 0) -> Tensor | None:
    """The square root of the sum of the squares of these, [n], and of so many ones; None where all are ones."""
    if not norms or (len(norms) == 1 and ones == 0):
        return norms[0] if norms else None
    squares = norms[0].square()
    for scale in norms[1:]:
        squares = squares + scale.square()
    return (squares + ones).sqrt()
