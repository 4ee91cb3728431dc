"""WINA: activation magnitude times the column's weight norm (paper, section 3.2, the weight informed gate)."""

from typing import ClassVar

from wina_core.specs.methods.base import Method, Variant, tr

_NORMED_AS_RELEASED = ("k", "gate")


class Wina(Method):
    """Score |x_i| * c_i with c_i = ||W[:, i]||_2.

    `paper`: every matrix with its own column norms. `as_released`: the authors' code takes norms for k and gate
    only, or of the whole fused matrix where q, k, v and gate, up are fused; everywhere else c = 1, TEAL's rule.
    """

    name: ClassVar[str] = "wina"
    summary: ClassVar[str] = tr("Keeps the inputs with the largest product of magnitude and weight norm")
    variants: ClassVar[tuple[Variant, ...]] = ("paper", "as_released")

    def norms_of(self, name: str, block: tuple[str, ...], *, fused: bool, rho: float | None = None) -> tuple[str, ...]:
        """Return its own; as released those of the fused matrix, or its own for k and gate alone."""
        if self.variant == "paper":
            return (name,)
        return block if fused else (name,) if name in _NORMED_AS_RELEASED else ()
