"""The dense model and the published methods.

- TEAL (Liu et al., "Training-Free Activation Sparsity in Large Language Models"): magnitude alone decides.
- WINA: activation magnitude times the column's weight norm (paper, section 3.2, the weight informed gate).
- CATS (Lee et al., "CATS: Contextually-Aware Thresholding for Sparsity"): the MLP's gate activation decides.
- R-Sparse (Zhang et al., "R-Sparse: Rank-Aware Activation Sparsity"): a mask, and a low-rank part for the dropped.
- SCAP (Chua, Pan and Jain, "Post-Training Statistical Calibration for Higher Activation Sparsity", 2024): the distance
  from the inputs' mode decides.
- LaRoSA (Liu et al., "La RoSA: Enhancing LLM Efficiency via Layerwise Rotated Sparse Activation", 2025): magnitude
  decides, in the principal axes of each layer's attention input (`presets.LAROSA_ROTATION`).
"""

from typing import TYPE_CHECKING, Any, ClassVar

from wina_core.errors import WinaError
from wina_core.specs.methods.base import Method, Variant, released_kept

if TYPE_CHECKING:
    from wina_core.specs.gates import MethodSpec


class Dense(Method):
    """y = W x for every matrix."""

    name: ClassVar[str] = "dense"
    summary: ClassVar[str] = "The model as it is: every input is kept"
    projections = ()


class Teal(Method):
    """Score |x_i|: c = 1 for every matrix.

    `paper`: the threshold of a target s is the quantile of |x| at s, as the WINA authors' code has it. `as_released`:
    the inverse CDF of the signed x at (1 + s) / 2 (FasterDecoding/TEAL, utils/utils.py), which is the same where x is
    symmetric around 0, and drops another fraction where it is not. Its code has no top k; here that is int(n (1 - s)).
    """

    name: ClassVar[str] = "teal"
    summary: ClassVar[str] = "Keeps the inputs of largest magnitude"
    variants: ClassVar[tuple[Variant, ...]] = ("paper", "as_released")

    def __init__(self, choice: "MethodSpec") -> None:
        super().__init__(choice)
        self.signed_thresholds = self.variant == "as_released"


_NORMED_AS_RELEASED = ("k", "gate")


class Wina(Method):
    """Score |x_i| * c_i with c_i = ||W[:, i]||_2.

    `paper`: every matrix with its own column norms. `as_released`: the authors' code takes norms for k and gate
    only, or of the whole fused matrix where q, k, v and gate, up are fused; everywhere else c = 1, TEAL's rule.
    """

    name: ClassVar[str] = "wina"
    summary: ClassVar[str] = "Keeps the inputs with the largest product of magnitude and weight norm"
    variants: ClassVar[tuple[Variant, ...]] = ("paper", "as_released")

    def norms_of(self, name: str, block: tuple[str, ...], *, fused: bool, rho: float | None = None) -> tuple[str, ...]:
        if self.variant == "paper":
            return (name,)
        return block if fused else (name,) if name in _NORMED_AS_RELEASED else ()


class Cats(Method):
    """z = act(W_gate x), m keeps the highest |z_i|, y = W_down (z * m * (W_up x)) (CATS, section 3).

    The mask leaves out rows of W_up and the same columns of W_down; attention and W_gate stay dense, so that the
    sparsity of a whole model is bounded by the share of W_up and W_down.
    """

    name: ClassVar[str] = "cats"
    summary: ClassVar[str] = "Keeps the neurons of the MLP whose gate activation is largest; attention stays dense"
    projections = ("up", "down")
    by_gate_activation: ClassVar[bool] = True


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
    summary: ClassVar[str] = "Keeps the largest inputs and approximates the dropped ones by a low-rank product"
    variants: ClassVar[tuple[Variant, ...]] = ("paper", "as_released")
    default_rho = OWN_RHO

    def __init__(self, choice: "MethodSpec") -> None:
        self._released = self.scores_by_shares = choice.variant == "as_released"
        # The base class reads it.
        self.default_rho = 1.0 if self._released else OWN_RHO
        super().__init__(choice)

    def norms_of(self, name: str, block: tuple[str, ...], *, fused: bool, rho: float | None = None) -> tuple[str, ...]:
        # The released code scores by |x_i| alone where rho is 1.
        return (name,) if self._released and self._share(rho) != 1 else ()

    def kept(self, inputs: Any, sparsity: Any) -> Any:
        # The mask's sparsity 1 - (1 - s) rho is rounded: released_kept could lose an input of a whole n (1 - s) rho.
        return super().kept(inputs, sparsity - _ROUNDING if self._released else sparsity)

    def mask_sparsity(self, sparsity: float, rho: float | None) -> float:
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
    return 1 - (1 - sparsity) * rho


def affordable_rank(shape: tuple[int, int], sparsity: float, rho: float) -> int:
    """Return the rank that the low-rank part's budget buys of W [m, n]: r = floor(m n (1 - s)(1 - rho) / (m + n))."""
    m, n = shape
    return int(m * n * (1 - sparsity) * (1 - rho) / (m + n) + 1e-9)  # s and rho are rounded: 3 must not become 2


def released_rank(name: str, shape: tuple[int, int], sparsity: float, rho: float, *, searched: bool) -> int:
    """Return the rank that the released code gives W [m, n], as if q, k, v, o were hidden x hidden.

    The budget m n (1 - s) beyond whole kept inputs is divided by m + n. A `searched` share keeps at least one input and
    one rank.
    """
    m, n = shape
    if name in _ATTENTION:
        m = n = m if name == "o" else n
    least = int(searched)
    channels = max(int(n * (1 - sparsity) * rho), least)
    return max(int((m * n * (1 - sparsity) - channels * m) / (m + n)), least)


_MLP = ("gate", "up", "down")


class Scap(Method):
    """y = W (m * (x - mode)) + W mode, m keeping the highest |x_i - mode_i| (SCAP, its mode-centring).

    W mode is a bias at run time; with modes of 0 the rule is TEAL's. `paper`: matrices of the MLP alone, each with one
    mode for all its inputs, the peak of their kernel density estimate on the calibration text. `as_released`: the same
    with modes of 0, the released settings for Llama-2 and Mistral (IntelLabs/SCAP, README and calibrate.py). `own`: all
    seven matrices, with a mode for each input (see `calibration.centres`).
    """

    name: ClassVar[str] = "scap"
    summary: ClassVar[str] = "Keeps the inputs farthest from their most frequent value, which the dropped ones take"
    variants: ClassVar[tuple[Variant, ...]] = ("paper", "as_released", "own")

    def __init__(self, choice: "MethodSpec") -> None:
        super().__init__(choice)
        if self.variant == "own":
            self.centring = "inputs"
        else:
            self.projections = _MLP
            self.centring = "matrix" if self.variant == "paper" else "none"


_READ, _WRITE = 0.8, 1.2
"""Factors of the uniform target in matrices that read the stream (q, k, v, gate, up), and that write it."""


class Larosa(Method):
    """Score |x_i|; top k keeps every input that scores at least as high as the k-th, k = int((1 - s) n).

    A uniform target s is 0.8 s in q, k, v, gate, up and 1.2 s in o, down (alibaba/EfficientAI,
    larosa/inference/modeling_llama_larosa.py), so that the dropped fraction of all weights is not quite s. The rotation
    is merged into the weights as in the paper's text, not applied at run time as in that file.
    """

    name: ClassVar[str] = "larosa"
    summary: ClassVar[str] = "Keeps the inputs of largest magnitude, fewer in o and down; meant for principal axes"
    keeps_ties: ClassVar[bool] = True

    def kept(self, inputs: Any, sparsity: Any) -> Any:
        return released_kept(inputs, sparsity)

    def cell_target(self, name: str, sparsity: float) -> float:
        """Return 0.8 s or 1.2 s; WinaError from 1 on."""
        target = sparsity * (_WRITE if name in ("o", "down") else _READ)
        if target >= 1:
            raise WinaError(
                f"LaRoSA drops {_WRITE:g} times its target in {name}, so {100 * sparsity:.4g} % is out of its reach; "
                f"choose a target below {100 / _WRITE:.3g} %."
            )
        return target
