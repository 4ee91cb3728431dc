"""The cost of a generated token, counted from the model's config."""

from wina_core.records.base import Record
from wina_core.records.models import ModelShape


class CostTerm(Record):
    """One term of a generated token's cost (formulas: `wina_core.accounting.terms`)."""

    name: str
    """"projections", "low rank", "gating", "shortcuts", "attention", "norms", "elementwise", "head", "embedding"."""
    flops: float
    """Floating-point operations and comparisons; a multiply-add is two."""
    bytes: float
    """Bytes read of weights and KV cache."""


class CostRow(Record):
    """The cost of a generated token with one rotation: as the paper counts, and in full."""

    rotation: str
    """A RotationSpec's mode, or "dense" for the model without gates and rotation."""
    counted_sparsity: float
    """Fraction of the gated weights that is not read."""
    full_sparsity: float
    """The same after residual shortcuts, norms and calibrated values of masks, and biases of replaced inputs. May be
    negative."""
    counted_flops: float
    """The terms that the paper counts: projections, low rank, head."""
    counted_flops_saving: float
    """Saved fraction of the dense model's `counted_flops`, as in the paper's figure of computational savings."""
    counted_bytes: float
    counted_bytes_saving: float
    full_flops: float
    """All terms."""
    full_flops_saving: float
    """Saved fraction of the dense model's `full_flops`; may be negative."""
    full_bytes: float
    full_bytes_saving: float
    shortcut_weights: int
    """Weights of the residual shortcuts."""
    terms: tuple[CostTerm, ...]
    warning: str = ""
    """A sentence where more is read than in the dense model, else empty."""


class CostRecord(Record):
    """The cost of a generated token under one method and plan, for several rotations."""

    shape: ModelShape
    method: str
    """`MethodSpec.label`."""
    target_sparsity: float
    """The uniform target, or the plan's budget."""
    context: int
    """Positions that the generated token attends to, itself included."""
    quantization: str
    rows: tuple[CostRow, ...]
    """The dense model's first."""
