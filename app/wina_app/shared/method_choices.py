"""Options of methods, and the methods that they apply to: selection, masks, correction, allocators."""

from dataclasses import dataclass

from wina_core.specs import DENSE, AllocatorSpec, Correction, Masks, MethodSpec, Selection, Thresholds
from wina_core.specs.allocations import ALLOCATOR_PLUGINS
from wina_core.specs.methods import get_method

SELECTIONS: dict[Selection, tuple[str, str]] = {
    "topk": ("Top k of each token", "Exactly the same number of inputs for every token; needs no calibration"),
    "threshold": (
        "Threshold",
        "Inputs that score above a calibrated value; their number differs between tokens",
    ),
    "statistical": (
        "Statistical top k",
        "Scores a calibrated number of standard deviations above the token's mean; no sort",
    ),
    "top_p": ("Top p of the mass", "The largest scores of a token up to a calibrated share of their sum"),
    "mixed": (
        "Mixed: threshold for gate and up",
        (
            "Calibrated thresholds for the inputs of gate and up, of which tokens keep different numbers, at least "
            "three quarters as many as by top k; exactly the top k for q, k, v, o and down"
        ),
    ),
}
"""(name, explanation)."""
WORDS: dict[Selection, str] = {
    "topk": "",
    "threshold": "threshold",
    "statistical": "statistical",
    "top_p": "top p",
    "mixed": "mixed",
}
"""The selection in a run's label; empty for the default."""
MASKS: dict[Masks, tuple[str, str]] = {
    "separate": ("One mask per matrix", "Every matrix scores its inputs with its own column norms"),
    "shared": (
        "Shared by q, k, v and gate, up",
        "Norms summed over the matrices: one mask, as a fused kernel needs it",
    ),
}
THRESHOLDS: dict[Thresholds, tuple[str, str]] = {
    "gated": (
        "Corrected, gated model",
        "Moved until every matrix of the gated model drops its target on the calibration text, for fair comparisons",
    ),
    "dense": (
        "As released, dense model",
        "Drops the target of the dense model's inputs; in the gated model each method misses it differently",
    ),
}
CORRECTIONS: dict[Correction, tuple[str, str]] = {
    "none": ("No correction", "Dropped inputs count as 0"),
    "mean": (
        "Means of dropped inputs",
        "Dropped inputs count as their calibrated means, at the cost of one bias per matrix",
    ),
    "tuned": (
        "Tuned biases",
        (
            "A bias of each gated matrix, by descent on the KL of the gated model on the calibration text; takes "
            "minutes, weights stay as they are"
        ),
    ),
}

_ALLOCATORS: tuple[tuple[AllocatorSpec, str], ...] = (
    (AllocatorSpec(), "The same target in every layer and projection"),
    (
        AllocatorSpec(name="greedy"),
        "TEAL's: in each layer, raise the projection that changes the output least; the same budget in every layer",
    ),
    (
        AllocatorSpec(name="greedy", variant="wina_released"),
        "Greedy as the WINA authors released it: by true sizes, fused matrices as one, searched by dense thresholds",
    ),
    (
        AllocatorSpec(name="greedy", variant="teal_released", step=0.05),
        "Greedy as the TEAL authors released it: by its table of sizes, the first half of each sequence dense",
    ),
    (
        AllocatorSpec(name="curves"),
        "The optimum over all layers at once of the KL that each cell costs alone, measured as curves",
    ),
    (
        AllocatorSpec(name="refine"),
        "Moves budget between cells, from curves on, while the measured KL falls; slow",
    ),
    (AllocatorSpec(name="evolution"), "Evolutionary search over the targets and, for R-Sparse, rho; slowest"),
    (
        AllocatorSpec(name="marginal"),
        "One more dropped weight costs the same KL everywhere, measured in the gated model; minutes",
    ),
)


@dataclass(frozen=True)
class Gating:
    """The options of all ticked methods, where they apply; None for what a preset has, or else the default."""

    selection: Selection | None = None
    masks: Masks | None = None
    correction: Correction | None = None
    rho: float | None = None

    def of(self, method: MethodSpec) -> MethodSpec:
        """Return a method with the options that apply to it; others stay as they are, so that equal runs stay equal."""
        if method.name == DENSE.name:
            return method
        masks = self.masks if shares_masks(method) else None
        options = {"selection": self.selection, "masks": masks, "correction": self.correction}
        chosen = {name: value for name, value in options.items() if value is not None}
        return method.model_copy(update=chosen | {"rho": self.rho if has_low_rank(method) else None})


def allocators() -> tuple[tuple[AllocatorSpec, str], ...]:
    """Return the allocators with an explanation, those of installed packages last; no package is loaded."""
    return (
        *_ALLOCATORS,
        *(
            (AllocatorSpec(name=name), f"Of the package {ALLOCATOR_PLUGINS.version(name)}")
            for name in ALLOCATOR_PLUGINS.names
        ),
    )


def shares_masks(method: MethodSpec) -> bool:
    """Return whether a method can share masks that differ between matrices; no released code does."""
    return method.variant != "as_released" and get_method(method).scores_by_norms


def has_low_rank(method: MethodSpec) -> bool:
    """Return whether a method splits its budget between a mask and a low-rank part."""
    return get_method(method).default_rho is not None
