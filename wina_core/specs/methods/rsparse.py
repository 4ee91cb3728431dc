"""R-Sparse (Zhang et al., "R-Sparse: Rank-Aware Activation Sparsity"): a mask, and a low-rank part for the dropped."""

from typing import Any, ClassVar

from wina_core.specs.methods.base import Method, MethodChoice, Variant, tr

OWN_RHO = 0.95
"""Our share for the paper's rule where neither spec nor plan has one. The paper searches one for each matrix; the mean
of the released search's shares is 0.96."""
_ATTENTION = ("q", "k", "v", "o")
_ROUNDING = 1e-12


class RSparse(Method):
    """y = W (m * x) + U_r S_r V_r^T ((1 - m) * x) with W = U S V^T (R-Sparse, section 3).

    At sparsity s the mask keeps the fraction (1 - s) rho of the inputs, and the rest of the budget buys the rank
    r = floor(m n (1 - s)(1 - rho) / (m + n)) of W [m, n]. A matrix whose target is 0 stays dense.

    `paper`: the mask keeps the highest |x_i|. `as_released` (VITA-Group/R-Sparse, models/modeling_llama.py and
    utils/setup.py): the highest |x_i| * ||W[:, i]||_2, or |x_i| where rho is 1, the default without a searched file.
    Its rank counts q, k, v and o as square, so that with grouped queries k and v get more than their budget.
    """

    name: ClassVar[str] = "rsparse"
    summary: ClassVar[str] = tr("Keeps the largest inputs and approximates the dropped ones by a low-rank product")
    variants: ClassVar[tuple[Variant, ...]] = ("paper", "as_released")
    default_rho = OWN_RHO

    def __init__(self, choice: MethodChoice) -> None:
        self._released = self.scores_by_shares = choice.variant == "as_released"
        self.default_rho = 1.0 if self._released else OWN_RHO
        super().__init__(choice)

    def norms_of(self, name: str, block: tuple[str, ...], *, fused: bool, rho: float | None = None) -> tuple[str, ...]:
        """Return none; as released its own, unless all of the budget goes to the mask."""
        return (name,) if self._released and self._share(rho) != 1 else ()

    def kept(self, inputs: Any, sparsity: Any) -> Any:
        """Return K as the base does; as released with the rounding of 1 - (1 - s) rho taken off again."""
        return super().kept(inputs, sparsity - _ROUNDING if self._released else sparsity)

    def mask_sparsity(self, sparsity: float, rho: float | None) -> float:
        """Return 1 - (1 - s) rho."""
        return masked_fraction(sparsity, self._share(rho)) if sparsity > 0 else 0.0

    def rank(self, name: str, shape: tuple[int, int], sparsity: float, rho: float | None) -> int:
        """Return `affordable_rank` or, as released, `released_rank`; 0 for a matrix that stays dense."""
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
    """Return the fraction of inputs that the mask drops: 1 - (1 - s) rho."""
    return 1 - (1 - sparsity) * rho


def affordable_rank(shape: tuple[int, int], sparsity: float, rho: float) -> int:
    """Return the rank that the low-rank part's budget buys of W [m, n]: r = floor(m n (1 - s)(1 - rho) / (m + n))."""
    m, n = shape
    return int(m * n * (1 - sparsity) * (1 - rho) / (m + n) + 1e-9)  # s and rho are rounded: 3 must not become 2


def released_rank(name: str, shape: tuple[int, int], sparsity: float, rho: float, *, searched: bool) -> int:
    """Return the rank that the released code gives W [m, n], with q, k, v, o taken for hidden x hidden.

    The budget m n (1 - s) beyond whole kept inputs is divided by m + n. A `searched` share keeps at least one input and
    one rank.
    """
    m, n = shape
    if name in _ATTENTION:
        m = n = m if name == "o" else n
    least = int(searched)
    channels = max(int(n * (1 - sparsity) * rho), least)
    return max(int((m * n * (1 - sparsity) - channels * m) / (m + n)), least)
