"""R-Sparse (Zhang et al., "R-Sparse: Rank-Aware Activation Sparsity"): a mask, and a low-rank part for the dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from wina_core.methods.base import Method

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from wina_core.compute.models.view import LayerView
    from wina_core.specs import MethodSpec, Variant

OWN_RHO = 0.95
"""Of the paper's rule where neither spec nor plan has a share: ours. The paper searches one for each matrix; the mean
of the released search's shares is 0.96."""
_ATTENTION = ("q", "k", "v", "o")
_ROUNDING = 1e-12


class RSparse(Method):
    """y = W (m * x) + U_r S_r V_r^T ((1 - m) * x) with W = U S V^T (R-Sparse, section 3).

    At sparsity s the mask keeps the fraction (1 - s) rho of the inputs, and the rest of the budget buys the rank
    r = floor(m n (1 - s)(1 - rho) / (m + n)) of W [m, n]. A matrix whose target is 0 stays dense.

    `paper`: the mask keeps the highest |x_i|. `as_released` (VITA-Group/R-Sparse, models/modeling_llama.py and
    utils/setup.py): the highest |x_i| * ||W[:, i]||_2, or |x_i| where rho is 1, which is its default unless a searched
    file is given; and the rank counts q, k, v and o as square, which with grouped queries buys k and v more than their
    budget.
    """

    name: ClassVar[str] = "rsparse"
    variants: ClassVar[tuple[Variant, ...]] = ("paper", "as_released")
    default_rho = OWN_RHO

    def __init__(self, spec: MethodSpec) -> None:
        super().__init__(spec)
        self._released = self.scores_by_shares = spec.variant == "as_released"
        if self._released:
            self.default_rho = 1.0

    def norms_of(self, name: str, block: tuple[str, ...], *, fused: bool) -> tuple[str, ...]:  # noqa: ARG002 - the base's
        """None; as released its own, unless all of the budget goes to the mask."""
        return () if not self._released or self.rho == 1 else (name,)

    def scales(self, layer: LayerView, rho: Mapping[str, float] | None = None) -> dict[str, Tensor | None]:
        """As the base's; as released, a plan's shares decide matrix by matrix whether norms score."""
        if not self._released or rho is None:
            return super().scales(layer)
        plain, scored = (Method.scales(self._with(share), layer) for share in (1.0, OWN_RHO))
        return {name: plain[name] if rho[name] == 1 else scored[name] for name in plain}

    def _with(self, rho: float) -> RSparse:
        return RSparse(self.spec.model_copy(update={"rho": rho}))

    def kept(self, inputs: Any, sparsity: Any) -> Any:
        """Return K as the base does; as released with the rounding of 1 - (1 - s) rho taken off again."""
        return super().kept(inputs, sparsity - _ROUNDING if self._released else sparsity)

    def mask_sparsity(self, sparsity: float, rho: float | None) -> float:
        """1 - (1 - s) rho."""
        return masked_fraction(sparsity, self._share(rho)) if sparsity > 0 else 0.0

    def rank(self, name: str, shape: tuple[int, int], sparsity: float, rho: float | None) -> int:
        """`affordable_rank` or, as released, `released_rank`; 0 for a matrix that stays dense."""
        share = self._share(rho)
        if sparsity <= 0:
            return 0
        if not self._released:
            return affordable_rank(shape, sparsity, share)
        return 0 if share == 1 else min(released_rank(name, shape, sparsity, share, searched=rho is not None), *shape)

    def _share(self, of_cell: float | None) -> float:
        share = self.rho if of_cell is None else of_cell
        assert share is not None  # it has a default
        return share


def masked_fraction(sparsity: float, rho: float) -> float:
    """The fraction of inputs that the mask drops: 1 - (1 - s) rho."""
    return 1 - (1 - sparsity) * rho


def affordable_rank(shape: tuple[int, int], sparsity: float, rho: float) -> int:
    """The rank that the low-rank part's budget buys of W [m, n]: r = floor(m n (1 - s)(1 - rho) / (m + n)), which
    the rounding of s and rho must not turn into one less."""
    m, n = shape
    return int(m * n * (1 - sparsity) * (1 - rho) / (m + n) + 1e-9)


def released_rank(name: str, shape: tuple[int, int], sparsity: float, rho: float, *, searched: bool) -> int:
    """Return the rank that the released code gives W [m, n], with q, k, v, o taken for hidden x hidden.

    What whole kept inputs leave of the budget m n (1 - s) is divided by m + n. A `searched` share keeps at least one
    input and one rank.
    """
    m, n = shape
    if name in _ATTENTION:
        m = n = m if name == "o" else n
    least = int(searched)
    channels = max(int(n * (1 - sparsity) * rho), least)
    return max(int((m * n * (1 - sparsity) - channels * m) / (m + n)), least)
