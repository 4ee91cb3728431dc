"""Gate rules, and the texts that they are calibrated on."""

from typing import Literal

from pydantic import Field

from wina_core.methods import METHODS, Masks, Variant
from wina_core.specs.base import Spec
from wina_core.specs.sources import TextSpec

Selection = Literal["topk", "threshold", "statistical", "top_p"]
Correction = Literal["none", "mean"]


class MethodSpec(Spec):
    """A gate rule by its registry name, and how it selects.

    `topk` keeps exactly n - floor(s n + 1/2) of n inputs per token, at least one. The others keep what exceeds a value
    calibrated to drop the target fraction: `threshold` of the score itself, `statistical` of the score's distance from
    its token's mean in standard deviations, `top_p` of the share of its token's mass that is not above it. `variant`
    picks between the paper's text, the authors' released code where the two differ, and a reading of our own. With
    `shared` masks, q, k, v keep the same inputs, and so do gate, up: c_i^2 is summed over the matrices, as a fused
    kernel needs it.
    """

    name: str = Field(min_length=1)
    variant: Variant = "paper"
    selection: Selection = "topk"
    masks: Masks = "separate"
    correction: Correction = "none"
    """`mean`: a dropped input counts as its calibrated mean over the tokens that drop it, at the cost of a bias."""
    rho: float | None = Field(default=None, gt=0.0, le=1.0)
    """R-Sparse: share of the kept budget that goes to the mask, the rest to the low-rank part; None for the plan's or
    the variant's default."""

    @property
    def label(self) -> str:
        """Short name for tables and plots, for example "wina (as released, shared masks)"."""
        details = [
            {"as_released": "as released", "own": "own variant"}.get(self.variant, ""),
            "shared masks" if self.masks == "shared" else "",
            "mean correction" if self.correction == "mean" else "",
            f"rho {self.rho:g}" if self.rho is not None else "",
        ]
        text = ", ".join(filter(None, details))
        return f"{self.name} ({text})" if text else self.name

    @property
    def needs_calibration(self) -> bool:
        """Whether its cuts, its centres, or what its dropped inputs count as, are read from a calibration."""
        method = METHODS.get(self.name)  # a stored spec may name one that is no more
        centred = method is not None and method(self).centring != "none"
        return self.name != "dense" and (centred or self.selection != "topk" or self.correction != "none")


DENSE = MethodSpec(name="dense")


def method_specs() -> tuple[MethodSpec, ...]:
    """Return all methods in each of their variants, the dense reference first."""
    return tuple(MethodSpec(name=name, variant=each) for name, method in METHODS.items() for each in method.variants)


Thresholds = Literal["gated", "dense"]


class CalibrationSpec(Spec):
    """The text from which score thresholds and error curves are measured.

    With `dense` thresholds, as released by all authors, each drops its target of the dense model's inputs, and in the
    gated model, whose inputs are others, misses it by method. With `gated` ones they are corrected until every matrix
    of the gated model drops its target on this text. Exactly the top k needs neither.

    The usual text is not the one that rotations are refined on: to that they are fitted, so that thresholds found there
    drop some 0.8 points too little elsewhere.
    """

    text: TextSpec = TextSpec(source="demo:training", tokens=49_152)
    thresholds: Thresholds = "gated"

    @property
    def measured(self) -> "CalibrationSpec":
        """Return the spec of the dense model's measurement, the same for both kinds of thresholds."""
        return CalibrationSpec(text=self.text)
