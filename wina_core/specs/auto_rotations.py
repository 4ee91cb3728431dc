"""The candidates of the rotation `auto`, which are measured."""

from typing import Any

from wina_core.specs.rotations import AUTO_TEXT, NO_ROTATION, USUAL_BASES, RotationSpec


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
