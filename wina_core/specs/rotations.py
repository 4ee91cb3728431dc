"""Rotations of the residual stream before gating, and the proposed ones."""

import re
from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from wina_core.specs.base import Spec
from wina_core.specs.quantization import WeightBits
from wina_core.specs.texts import TextSpec

RotationMode = Literal["none", "global", "per_layer", "per_site"]
AttentionBasis = Literal["k", "qkv", "activations"]
MlpBasis = Literal["gate", "gate_up", "activations"]
Weighting = Literal["trace", "sensitivity"]
Objective = Literal["eigen", "error", "kl"]
FoldNorms = Literal["none", "exact", "all"]
ROTATION_MODES: tuple[RotationMode, ...] = get_args(RotationMode)

MATRICES_FILE = "wina_rotation_matrices.safetensors"
"""Name of the bases' file in an exported rotated model's folder, to be given as `RotationSpec.matrices`."""

_USUAL_BASES: tuple[tuple[AttentionBasis, ...], tuple[MlpBasis, ...]] = (
    ("qkv", "activations"),
    ("gate_up", "activations"),
)
_STEPS = 300

USUAL_EFFORT: dict[Objective, tuple[int, TextSpec]] = {
    "eigen": (_STEPS, TextSpec()),
    "error": (_STEPS, TextSpec(tokens=32_768)),
    "kl": (1000, TextSpec(source="demo:training", tokens=262_144)),
}
"""The proposed steps and text of each objective, which labels do not name."""


_FOLDED: dict[FoldNorms, str] = {"none": "", "exact": ", norms folded", "all": ", all norms folded"}


class RotationSpec(Spec):
    """A rotation of the residual stream before gating (paper, appendix "Orthogonal Tensor Transformation").

    `global`: one Q for the whole stream, free at run time. `per_layer`, `per_site`: one Q per layer, or one per
    attention input and one per MLP input (the paper's), with d x d shortcuts on the residual. `per_head` also rotates
    V's outputs and O's inputs per head, in any mode. `matrices` is a safetensors file of orthogonal matrices to use
    instead of computed ones.

    `k` and `gate` are those matrices alone, or the whole fused one, as in the published transform. Where inputs share
    their basis, the bases of one side may be empty.

    `weighting` selects the sum over the sites that share a basis: `trace` sums the named Gram matrices, each divided by
    its trace; `sensitivity` sums each site's Fisher information and, with the same weight, the second moments of its
    activations. `objective` turns the sum into a basis: `eigen`, its eigenvectors; `error`, those improved by `steps`
    Cayley steps on the calibrated error of gating; `kl`, improved further on the KL divergence.

    `noise_bits` below 16 adds the expected error of rounding the weights to so many bits to the objective `error`.

    `fold_norms` scales inputs by the column norms c of the matrices that read them, x' = c x and W' = W / c, so that
    |x'_i| alone is WINA's score and no norms are read. `exact` folds where masks shared by these matrices stay the same
    and quantization loses nothing (`wina_core.masks.folding`); `all` folds in any case, and also o where query heads
    share their values, with one c for them together.
    """

    mode: RotationMode = "global"
    attention_basis: tuple[AttentionBasis, ...] = _USUAL_BASES[0]
    mlp_basis: tuple[MlpBasis, ...] = _USUAL_BASES[1]
    per_head: bool = True
    weighting: Weighting = "trace"
    objective: Objective = "eigen"
    steps: int = Field(default=_STEPS, ge=1)
    fold_norms: FoldNorms = "none"
    noise_bits: WeightBits = 16
    text: TextSpec = TextSpec()
    matrices: str | None = None
    matrices_fingerprint: str = ""
    """Digest of the file of given matrices (`wina_core.sources.resolve.resolve_rotation`); empty until resolved."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.mode != "none" and not self.matrices:
            if self.mode == "per_site" and not (self.attention_basis and self.mlp_basis):
                raise ValueError(
                    "a rotation per_site needs attention_basis and mlp_basis, for example k and gate; one is empty"
                )
            if not (self.attention_basis or self.mlp_basis):
                raise ValueError("attention_basis and mlp_basis are both empty; name one, for example activations")
        if self.weighting == "sensitivity" and (self.attention_basis, self.mlp_basis) != _USUAL_BASES:
            raise ValueError("sites weighted by sensitivity have no named bases; leave those out, or weight by trace")
        if self.noise_bits != 16 and self.objective != "error":
            raise ValueError(
                f"the objective {self.objective} counts no rounding to {self.noise_bits} bits; choose error, or 16 bits"
            )
        return self

    @property
    def is_identity(self) -> bool:
        """Return whether the weights stay as they are."""
        return not self.turns and self.fold_norms == "none"

    @property
    def turns(self) -> bool:
        """Return whether anything is multiplied by an orthogonal matrix."""
        return self.mode != "none" or self.per_head

    @property
    def needs_shortcuts(self) -> bool:
        """Return whether matrices on the residual stream change its basis, which other programs do not know."""
        return self.mode in ("per_layer", "per_site")

    @property
    def label(self) -> str:
        """Return a short name, for example "global + heads"."""
        if self.is_identity:
            return "none"
        text: str = self.mode
        if self.matrices:
            file = re.split(r"[/\\]", self.matrices)[-1]
            text += f" (given: {' '.join(part for part in (file, self.matrices_fingerprint[:6]) if part)})"
        else:
            steps, read = USUAL_EFFORT[self.objective]
            text += self._basis_label
            if self.objective != "eigen":
                text += " refined" if self.objective == "error" else " refined on KL"
                text += f" for {self.noise_bits} bits" if self.noise_bits != 16 else ""
                text += f" in {self.steps} steps" if self.steps != steps else ""
            elif self.weighting == "sensitivity" and self.mode != "none":
                text += " by sensitivity"
            if self.reads_text and self.text != read:
                text += f" on {self.text.label}"
        return f"{text}{' + heads' * self.per_head}{_FOLDED[self.fold_norms]}"

    @property
    def is_measured(self) -> bool:
        """Return whether the bases need more than Gram matrices and second moments."""
        return self.objective != "eigen" or (self.mode != "none" and self.weighting == "sensitivity")

    @property
    def reads_text(self) -> bool:
        """Return whether the bases depend on `text`."""
        if self.matrices or not self.turns:
            return False
        by_activations = "activations" in (*self.attention_basis, *self.mlp_basis)
        return self.is_measured or (self.mode != "none" and by_activations)

    @property
    def _basis_label(self) -> str:
        bases = {"+".join(self.attention_basis), "+".join(self.mlp_basis)}
        if self.mode == "none" or bases == {"qkv+activations", "gate_up+activations"}:
            return ""
        if bases == {"activations"}:
            return " (activations)"
        named = (("attention", self.attention_basis), ("MLP", self.mlp_basis))
        if not all(names for _, names in named):
            sides = (f"{side} {'+'.join(names)}" for side, names in named if names)
            return f" ({', '.join(sides)})"
        return f" ({'+'.join(self.attention_basis)}, {'+'.join(self.mlp_basis)})"


NO_ROTATION = RotationSpec(mode="none", per_head=False)

AS_RELEASED_ROTATION = RotationSpec(mode="per_site", attention_basis=("k",), mlp_basis=("gate",), per_head=False)
"""The published transform: bases of k_proj and gate_proj, or of whole fused matrices, with residual shortcuts."""

FREE_ROTATION = RotationSpec(
    weighting="sensitivity", objective="error", text=USUAL_EFFORT["error"][1], fold_norms="exact"
)
"""The default of window and command line: one Q for the stream and one per head, refined on the calibrated error of
gating, free at run time."""

FREE_KL_ROTATION = RotationSpec(
    weighting="sensitivity",
    objective="kl",
    steps=USUAL_EFFORT["kl"][0],
    text=USUAL_EFFORT["kl"][1],
    fold_norms="exact",
)
"""The same refined further on the gated model's KL divergence: the best and by far the slowest."""
