"""The effect of a rotation, and the course of its refinement."""

from typing import Literal

from wina_core.json_record import Record
from wina_core.records.models import QuantizationReport
from wina_core.records.units import LayerRecord


class RefinementStep(Record):
    """The loss at one step of a refinement, before the step turns the basis."""

    site: str
    """Label of the basis: "stream", "layer 3", "layer 3 attention", "layer 3 mlp" or "layer 3 heads"; "all" where all
    are turned at once."""
    objective: Literal["error", "kl"]
    sparsity: float
    """Sparsity of the gates at this step; steps alternate between several, whose losses are not comparable."""
    step: int
    steps: int
    """Steps in all."""
    loss: float
    """Expected or measured KL divergence of the gated model from the dense one, in nats per token."""


class BasesRecord(Record):
    """The search for a rotation's bases, kept with them, so that a rotation by known bases reports it too."""

    seconds: float
    dense_residuals: tuple[LayerRecord, ...]
    refinement: tuple[RefinementStep, ...]
    """All three as in RotationReport, the time without that of applying the bases."""


class RotationReport(Record):
    """The effect of a rotation on a model's logits and on the orthogonality of its weights."""

    rotation: str
    """Content hash of the RotationSpec."""
    logits_deviation: float
    """||rotated - dense||_F / ||dense||_F of the logits on a probe text."""
    residuals: tuple[LayerRecord, ...]
    """metric "off_diagonal_energy": ||offdiag(W^T W)||_F^2 / ||W^T W||_F^2 per layer and projection."""
    shortcut_parameters: int
    """Weights of the d x d residual shortcuts that the rotated model reads for every token; 0 if free."""
    seconds: float
    dense_residuals: tuple[LayerRecord, ...] = ()
    """The same metric of the weights before the rotation; empty in reports of older versions."""
    refinement: tuple[RefinementStep, ...] = ()
    """Some steps of each basis, its first and last ones included; empty without a refinement, and in reports of older
    versions."""
    folded: tuple[str, ...] = ()
    """Names of the projections whose inputs carry their column norms (`RotationSpec.fold_norms`)."""
    exported_to: str | None = None
    quantization: QuantizationReport | None = None
    """The further effect of quantizing the rotated model; the other numbers are from before."""
