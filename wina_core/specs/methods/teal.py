"""TEAL (Liu et al., "Training-Free Activation Sparsity in Large Language Models"): magnitude alone decides."""

from typing import ClassVar

from wina_core.specs.methods.base import Method, MethodChoice, Variant, tr


class Teal(Method):
    """Score |x_i|: c = 1 for every matrix.

    `paper`: the threshold of a target s is the quantile of |x| at s, as the WINA authors' code has it. `as_released`:
    the inverse CDF of the signed x at (1 + s) / 2 (FasterDecoding/TEAL, utils/utils.py), which is the same where x is
    symmetric around 0, and drops another fraction where it is not. Its code has no top k; here that is int(n (1 - s)).
    """

    name: ClassVar[str] = "teal"
    summary: ClassVar[str] = tr("Keeps the inputs of largest magnitude")
    variants: ClassVar[tuple[Variant, ...]] = ("paper", "as_released")

    def __init__(self, choice: MethodChoice) -> None:
        super().__init__(choice)
        self.signed_thresholds = self.variant == "as_released"
