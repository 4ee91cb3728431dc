"""Presets of rotations, with explanations and costs of modes and bases."""

from typing import Literal

from wina_core.model_info.cost.terms import shortcut_count
from wina_core.records import ModelSummary
from wina_core.specs import (
    AS_RELEASED_ROTATION,
    AUTO_ROTATION,
    FREE_KL_ROTATION,
    FREE_ROTATION,
    NO_ROTATION,
    AttentionBasis,
    FoldNorms,
    MlpBasis,
    Objective,
    RotationMode,
    RotationSpec,
    Spectrum,
    WeightBits,
    Weighting,
)
from wina_core.specs.plans import PlanLayout

_BY_ACTIVATIONS = RotationSpec(attention_basis=("activations",), mlp_basis=("activations",), fold_norms="exact")
ROTATION_PRESETS: dict[str, RotationSpec] = {
    "Auto: the best of measured candidates": AUTO_ROTATION,
    "Global, refined (free at run time)": FREE_ROTATION,
    "Global, refined on KL (free at run time)": FREE_KL_ROTATION,
    "As published: per site, k and gate": AS_RELEASED_ROTATION,
    "None: the dense basis": NO_ROTATION,
    "Global, from eigenvectors (free at run time)": RotationSpec(fold_norms="exact"),
    "Global, activations alone": _BY_ACTIVATIONS,
    "Global, activations without their first direction": _BY_ACTIVATIONS.model_copy(update={"drop_directions": 1}),
    "Global, logarithms of activations": _BY_ACTIVATIONS.model_copy(update={"spectrum": "log"}),
    "Heads only": RotationSpec(mode="none", per_head=True, fold_norms="exact"),
    "Global, weights only": RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",), fold_norms="exact"),
    "Per layer + heads": RotationSpec(mode="per_layer", fold_norms="exact"),
    "Per site + heads": RotationSpec(mode="per_site", fold_norms="exact"),
}
CUSTOM = "Custom"

MODES: dict[RotationMode | Literal["auto"], str] = {
    "auto": "Measures a few rotations and takes the best, or none if none is better.",
    "none": "The residual stream stays in the model's own basis.",
    "global": "One basis for the whole residual stream, folded into the weights.",
    "per_layer": "One basis for each decoder layer; a d × d shortcut carries the residual into the next.",
    "per_site": "One basis for each attention and each MLP input, as published; a shortcut between any two.",
}
BASES: dict[AttentionBasis | MlpBasis, str] = {
    "k": "Gram matrix of k_proj, as published for the attention inputs",
    "qkv": "Sum of the Gram matrices of q, k and v",
    "gate": "Gram matrix of gate_proj, as published for the MLP inputs",
    "gate_up": "Sum of the Gram matrices of gate and up",
    "activations": "Second moments of the inputs on the calibration text: concentrates them on few directions",
}
SPECTRA: dict[Spectrum, tuple[str, str]] = {
    "linear": ("Energies", "Second moments as they are: the directions of most energy decide"),
    "log": ("Logarithms of energies", "A few directions of high energy decide less; for activations alone"),
}
WEIGHTINGS: dict[Weighting, tuple[str, str]] = {
    "trace": ("All sites alike", "The Gram matrices below, each normalized to the same trace"),
    "sensitivity": (
        "By sensitivity",
        "Fisher information and activations: sites weigh by the effect of errors there",
    ),
}
OBJECTIVES: dict[Objective, tuple[str, str]] = {
    "eigen": ("Eigenvectors", "Of the sum over the sites: one eigendecomposition; takes seconds"),
    "error": (
        "Calibrated error of gating",
        "Cayley steps from the eigenvectors on the error of gating",
    ),
    "kl": ("KL divergence", "Further steps on the KL divergence of the gated model; slow"),
}
FOLDS: dict[FoldNorms, tuple[str, str]] = {
    "none": ("Keep the norms", "WINA reads a norm for each input beside the weights."),
    "exact": (
        "Fold where exact",
        (
            "Inputs are scaled by the norms and weights divided by them: masks shared by q, k, v and by gate, up stay "
            "the same, and no norm is read. Not under quantization that would lose by it."
        ),
    ),
    "all": (
        "Fold everywhere",
        "Also under any quantization, and in o where query heads share values: one norm then serves a group.",
    ),
}
NOISE_BITS: dict[WeightBits, str] = {
    16: "None: for gating alone",
    8: "8 bits",
    6: "6 bits",
    4: "4 bits",
    3: "3 bits",
    2: "2 bits",
}
PER_HEAD = "Rotates each head's values and the inputs of o to match. Free at run time."


def cost(mode: str, layout: PlanLayout | None, hidden_size: int) -> str:
    """Return a mode's cost per token at run time, in words."""
    if mode not in ("per_layer", "per_site"):
        return "Free at run time."
    if layout is None:
        return "Costs a d × d product for every shortcut and token."
    count = shortcut_count(mode, layout.layers)
    share = count * hidden_size**2 / sum(map(sum, layout.parameters))
    return f"Costs {count} products with {hidden_size:,} × {hidden_size:,}: +{100 * share:.1f} % of the gated weights."


def is_exact(spec: RotationSpec, summary: ModelSummary | None) -> bool:
    """Return whether a rotation is exact for a model; without a model all count as exact."""
    return summary is None or spec.is_auto or spec.mode in summary.rotations


def preset_of(spec: RotationSpec) -> str:
    """Return the name of a rotation's preset, or CUSTOM."""
    return next((name for name, preset in ROTATION_PRESETS.items() if preset == spec), CUSTOM)
