"""Rotations of the residual stream before gating, and the proposed ones."""

import re
from typing import Any, Literal, Self, get_args

from pydantic import Field, model_validator

from wina_core.specs.base import Spec
from wina_core.specs.evaluations import TextSpec
from wina_core.specs.quantization import WeightBits

RotationMode = Literal["none", "global", "per_layer", "per_site"]
Spectrum = Literal["linear", "log"]
AttentionBasis = Literal["k", "qkv", "activations"]
MlpBasis = Literal["gate", "gate_up", "activations"]
Weighting = Literal["trace", "sensitivity"]
Objective = Literal["eigen", "error", "kl"]
FoldNorms = Literal["none", "exact", "all"]
ROTATION_MODES: tuple[RotationMode, ...] = get_args(RotationMode)
AUTO: Literal["auto"] = "auto"
"""The mode of a rotation that is chosen by measuring candidates (`auto_candidates`)."""

MATRICES_FILE = "wina_rotation_matrices.safetensors"
"""Name of the bases' file in an exported rotated model's folder, to be given as `RotationSpec.matrices`."""

USUAL_BASES: tuple[tuple[AttentionBasis, ...], tuple[MlpBasis, ...]] = (
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
AUTO_TEXT = TextSpec(tokens=8192)
"""The proposed text of the candidates' bases."""
AUTO_SPARSITY = 0.5
COMPARED_ROWS, COMPARED_SEQUENCE = 8, 128
"""Rows that rotations are compared on, of the text and of the model's own: enough for an error each."""

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
    |x'_i| alone is WINA's score and no norms are read. `exact` folds where masks shared by these matrices stay the
    same and quantization loses nothing (`wina_core.model_info.folding`); `all` folds in any case, and also o where
    query heads share their values, with one c for them together.

    `drop_directions` and `spectrum` change the second moments of activations: each site's leading directions are left
    out, and its eigenvalues are replaced by their logarithms, so that a few directions of high energy do not decide.

    `auto` is the best of `auto_candidates` at a `sparsity`, by the KL divergence of the gated model on rows of the text
    that no basis was computed from, of those that do no harm there or on text sampled from the model; no rotation is
    one of them. An `objective` other than `eigen` adds the best one refined.
    """

    mode: RotationMode | Literal["auto"] = "global"
    attention_basis: tuple[AttentionBasis, ...] = USUAL_BASES[0]
    mlp_basis: tuple[MlpBasis, ...] = USUAL_BASES[1]
    per_head: bool = True
    spectrum: Spectrum = "linear"
    drop_directions: int = Field(default=0, ge=0, le=64)
    weighting: Weighting = "trace"
    objective: Objective = "eigen"
    steps: int = Field(default=_STEPS, ge=1)
    fold_norms: FoldNorms = "none"
    noise_bits: WeightBits = 16
    text: TextSpec = TextSpec()
    matrices: str | None = None
    matrices_fingerprint: str = ""
    """Digest of the file of given matrices (`wina_core.model_info.resolve.resolve_rotation`); empty until resolved."""
    sparsity: float = Field(default=AUTO_SPARSITY, ge=0.05, le=0.95)
    """Sparsity at which rotations are compared, of `auto` and with no rotation."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_activations()
        if self.is_auto and (self.matrices or self.weighting != "trace" or self.noise_bits != 16):
            raise ValueError("auto chooses its bases; leave out matrices, weighting and noise_bits")
        if self.mode != "none" and not self.matrices:
            if self.mode == "per_site" and not (self.attention_basis and self.mlp_basis):
                raise ValueError(
                    "a rotation per_site needs attention_basis and mlp_basis, for example k and gate; one is empty"
                )
            if not (self.attention_basis or self.mlp_basis):
                raise ValueError("attention_basis and mlp_basis are both empty; name one, for example activations")
        if self.weighting == "sensitivity" and (self.attention_basis, self.mlp_basis) != USUAL_BASES:
            raise ValueError("sites weighted by sensitivity have no named bases; leave those out, or weight by trace")
        if self.noise_bits != 16 and self.objective != "error":
            raise ValueError(
                f"the objective {self.objective} counts no rounding to {self.noise_bits} bits; choose error, or 16 bits"
            )
        return self

    def _check_activations(self) -> None:
        """Raise ValueError for changes of second moments that no basis reads."""
        changed = self.spectrum != "linear" or self.drop_directions > 0
        named = {*self.attention_basis, *self.mlp_basis}
        if changed and ("activations" not in named or self.weighting == "sensitivity"):
            raise ValueError("spectrum and drop_directions change the basis activations; name it, weighted by trace")
        if self.spectrum == "log" and named != {"activations"}:
            raise ValueError("logarithms of activations do not add up with Gram matrices; name activations alone")

    @property
    def is_auto(self) -> bool:
        return self.mode == AUTO

    @property
    def stream_mode(self) -> RotationMode:
        """Return the mode for estimates; that of `auto` is global, since no candidate has shortcuts."""
        return "global" if self.mode == "auto" else self.mode

    @property
    def is_identity(self) -> bool:
        return not self.turns and self.fold_norms == "none"

    @property
    def turns(self) -> bool:
        """Return whether anything is multiplied by an orthogonal matrix."""
        return self.mode != "none" or self.per_head

    @property
    def needs_shortcuts(self) -> bool:
        """Return whether the residual stream changes its basis, by matrices that other programs do not know."""
        return self.mode in ("per_layer", "per_site")

    @property
    def label(self) -> str:
        """Return a short name, for example "global + heads"."""
        if self.is_identity:
            return "none"
        if self.is_auto:
            return self._auto_label
        text: str = self.mode
        if self.matrices:
            file = re.split(r"[/\\]", self.matrices)[-1]
            text += f" (given: {' '.join(word for word in (file, self.matrices_fingerprint[:6]) if word)})"
        else:
            text += self._basis_label + self._refined
            if self.objective == "eigen" and self.weighting == "sensitivity" and self.mode != "none":
                text += " by sensitivity"
            if self.reads_text and self.text != USUAL_EFFORT[self.objective][1]:
                text += f" on {self.text.label}"
        return f"{text}{' + heads' * self.per_head}{_FOLDED[self.fold_norms]}"

    @property
    def _refined(self) -> str:
        if self.objective == "eigen":
            return ""
        text = " refined" if self.objective == "error" else " refined on KL"
        text += f" for {self.noise_bits} bits" if self.noise_bits != 16 else ""
        return text + (f" in {self.steps} steps" if self.steps != USUAL_EFFORT[self.objective][0] else "")

    @property
    def _auto_label(self) -> str:
        usual = AUTO_TEXT if self.objective == "eigen" else USUAL_EFFORT[self.objective][1]
        text = "auto" if self.sparsity == AUTO_SPARSITY else f"auto at {100 * self.sparsity:.4g} %"
        text += self._refined
        text += "" if self.text == usual else f" on {self.text.label}"
        text += "" if self.per_head else " without heads"
        return text + {"exact": "", "none": ", norms read", "all": ", all norms folded"}[self.fold_norms]

    @property
    def is_measured(self) -> bool:
        """Return whether the bases need more than Gram matrices and second moments."""
        return self.objective != "eigen" or (self.mode != "none" and self.weighting == "sensitivity")

    @property
    def reads_text(self) -> bool:
        """Return whether the bases depend on `text`."""
        if self.is_auto:
            return True
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
            changes = f" without {self.drop_directions} directions" if self.drop_directions else ""
            return f" ({'log ' * (self.spectrum == 'log')}activations{changes})"
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

AUTO_ROTATION = RotationSpec(mode=AUTO, text=AUTO_TEXT, fold_norms="exact")
"""The default of window, command line and Python API."""


# ---- the candidates of `auto` ----------------------------------------------------------------------------------------


def auto_candidates(spec: RotationSpec) -> tuple[RotationSpec, ...]:
    """Return the rotations that `auto` compares at first, the simplest first; no rotation is the first of all.

    All are by eigenvectors, which one pass over the text serves; `refined_candidate` follows on the best of them.
    """
    tokens = min(spec.text.tokens, AUTO_TEXT.tokens)
    heads = RotationSpec(
        mode="none",
        per_head=spec.per_head,
        fold_norms=spec.fold_norms if spec.per_head else "none",
        text=spec.text.model_copy(update={"tokens": tokens}),
    )
    stream: dict[str, Any] = {
        "mode": "global",
        "attention_basis": ("activations",),
        "mlp_basis": ("activations",),
        "fold_norms": spec.fold_norms,
    }
    with_weights = {"attention_basis": USUAL_BASES[0], "mlp_basis": USUAL_BASES[1]}
    variants: tuple[dict[str, Any], ...] = ({}, {"spectrum": "log"}, with_weights)
    candidates = (NO_ROTATION, heads, *(heads.model_copy(update={**stream, **variant}) for variant in variants))
    # Without heads, the candidate that rotates heads alone would be no rotation again.
    return tuple(dict.fromkeys(candidates if spec.per_head else (NO_ROTATION, *candidates[2:])))


def refined_candidate(spec: RotationSpec, best: RotationSpec) -> RotationSpec | None:
    """Return the best candidate refined as `auto` was asked to; None if it was not, or for no rotation."""
    if spec.objective == "eigen" or best.is_identity:
        return None
    return best.model_copy(update={"objective": spec.objective, "steps": spec.steps, "text": spec.text})
