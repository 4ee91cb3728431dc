"""Gate rules, and their calibration, with the targets for which it stores thresholds."""

import math
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from wina_core.specs.base import Spec
from wina_core.specs.evaluations import TextSpec
from wina_core.specs.methods import METHODS, Masks, Variant

Selection = Literal["topk", "threshold", "statistical", "top_p", "mixed"]
Correction = Literal["none", "mean", "tuned"]
FEWEST = 0.75
"""What `mixed` keeps of every token at least, as a share of the inputs that top k keeps: without it, a token with a few
large inputs keeps only these."""


class MethodSpec(Spec):
    """A gate rule by its registry name, and how it selects.

    `topk` keeps exactly n - floor(s n + 1/2) of n inputs per token, at least one. The others keep the inputs above a
    value calibrated to drop the target fraction: `threshold` of the score itself, `statistical` of its distance from
    the token's mean in standard deviations, `top_p` of the share of the token's mass that is not above it. `mixed` is
    `threshold` for the input of gate and up, where tokens may drop unequal numbers but keep at least three quarters as
    many as by `topk`, and `topk` elsewhere. `variant` is the paper's text, the authors' released code where the two
    differ, or a reading of our own. With `shared` masks, q, k, v keep the same inputs, and so do gate, up: c_i^2 is
    summed over the matrices, for fused kernels.
    """

    name: str = Field(min_length=1)
    variant: Variant = "paper"
    selection: Selection = "topk"
    masks: Masks = "separate"
    correction: Correction = "none"
    """`mean` replaces a dropped input by its calibrated mean over the tokens that drop it, at the cost of a bias;
    `tuned` adds a bias to each gated matrix, by descent on the gated model's KL divergence on the calibration text."""
    rho: float | None = Field(default=None, gt=0.0, le=1.0)
    """R-Sparse: the mask's share of the kept budget, the rest goes to the low-rank part; None for the plan's or the
    variant's."""

    @property
    def label(self) -> str:
        """Return a short name, for example "wina (as released, shared masks)"."""
        details = [
            {"as_released": "as released", "own": "own variant"}.get(self.variant, ""),
            "shared masks" if self.masks == "shared" else "",
            {"mean": "mean correction", "tuned": "tuned biases"}.get(self.correction, ""),
            f"rho {self.rho:g}" if self.rho is not None else "",
        ]
        text = ", ".join(filter(None, details))
        return f"{self.name} ({text})" if text else self.name

    def selection_of(self, projection: str) -> Selection:
        """Return how a projection's inputs are selected, by its canonical name; never `mixed`."""
        if self.selection != "mixed":
            return self.selection
        method = METHODS.get(self.name)
        one_mask = method is not None and method(self).by_gate_activation  # for rows of up and columns of down
        return "threshold" if one_mask or projection in ("gate", "up") else "topk"

    def fewest(self, topk_inputs: int) -> int:
        """Return how many inputs a token keeps at least by thresholds, where `topk` would keep `topk_inputs`."""
        return math.ceil(FEWEST * topk_inputs) if self.selection == "mixed" else 0

    @property
    def is_tuned(self) -> bool:
        return self.correction == "tuned" and self.name != "dense"

    @property
    def untuned(self) -> "MethodSpec":
        """Return the method without tuned biases, which calibration and allocation use."""
        return self.model_copy(update={"correction": "none"}) if self.correction == "tuned" else self

    @property
    def needs_calibration(self) -> bool:
        """Return whether its thresholds, centres or replacements are read from a calibration text."""
        method = METHODS.get(self.name)  # a stored spec may name one that is no more
        centred = method is not None and method(self).centring != "none"
        return self.name != "dense" and (centred or self.selection != "topk" or self.correction != "none")

    def check_calibration(self, calibration: "CalibrationSpec | None") -> None:
        if self.needs_calibration and calibration is None:
            raise ValueError(f"{self.label} with {self.selection} selection needs a calibration")


DENSE = MethodSpec(name="dense")


def method_specs() -> tuple[MethodSpec, ...]:
    """Return all methods in each of their variants, the dense reference first."""
    return tuple(
        MethodSpec(name=name, variant=variant) for name, method in METHODS.items() for variant in method.variants
    )


Thresholds = Literal["gated", "dense"]
CORRECTION_PASSES = 5
"""Passes of the text through the gated model that correct thresholds, at most."""
CORRECTION_TOKENS = 16_384
"""Tokens of a pass, at most, in rows spread over the text: three times as many come no closer on other texts."""


TUNING_STEPS = 48
"""Steps of the descent that tunes biases, each on a row of text."""


class CalibrationSpec(Spec):
    """The text on which score thresholds and error curves are measured.

    `dense` thresholds, as released by all authors, drop the target of the dense model's inputs, and miss it in the
    gated model, each method differently. `gated` ones are corrected until every matrix of the gated model drops its
    target on this text. Exact top k needs neither.

    The default is not the text for refining rotations: thresholds from that drop some 0.8 points too little elsewhere.
    """

    text: TextSpec = TextSpec(source="demo:training", tokens=49_152)
    thresholds: Thresholds = "gated"

    @property
    def measured(self) -> "CalibrationSpec":
        """Return the spec of the dense model's measurement, the same for both kinds of thresholds."""
        return CalibrationSpec(text=self.text)


FRACTIONS = tuple(index / 2000 for index in range(2001))
"""Targets with a stored threshold: every 0.05 percentage points."""


def threshold_at(thresholds: Sequence[float] | Any, target: float) -> float:
    """Return the score that a kept input exceeds when the target fraction is dropped.

    Interpolates linearly between `thresholds`, a sequence, array or tensor [len(FRACTIONS)].
    """
    position = target * (len(FRACTIONS) - 1)
    # The last interval also serves the target 1.
    lower = min(int(position), len(FRACTIONS) - 2)
    below, above = map(float, thresholds[lower : lower + 2])
    return below + (position - lower) * (above - below)
