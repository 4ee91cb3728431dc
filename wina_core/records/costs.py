"""The cost of a generated token, counted from the model's config."""

from wina_core.records.base import Record
from wina_core.records.models import ModelShape


class CostTerm(Record):
    """One term of a generated token's cost (formulas: `wina_core.model_info.cost.terms`)."""

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
    gated_sparsity: float
    """Fraction of the gated weights that is not read."""
    net_sparsity: float
    """The same after residual shortcuts, norms and calibrated values of masks, and biases of replaced inputs. May be
    negative."""
    gated_flops: float
    """The terms that the paper counts: projections, low rank, head."""
    gated_flops_saving: float
    """Saved fraction of the dense model's `gated_flops`, as in the paper's figure of computational savings."""
    gated_bytes: float
    gated_bytes_saving: float
    net_flops: float
    """All terms."""
    net_flops_saving: float
    """Saved fraction of the dense model's `net_flops`; may be negative."""
    net_bytes: float
    net_bytes_saving: float
    bits_read: float
    """Bits read for a token of the gated matrices and low-rank parts, scales and zeros included, over their weights. By
    energy, as if kept inputs had the mean of all; the KL from the original comes with measured ones."""
    bits_held: float
    """Bits held of the gated matrices, scales and zeros included, over their weights."""
    bytes_held: float = 0.0
    """Bytes of all weights, shortcuts and norms of masks, and of the KV cache of the context."""
    gated_weights: float = 0.0
    """Number of gated weights."""
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
    """`quantization_label` of the model's quantization."""
    rows: tuple[CostRow, ...]
    """The dense model's first."""
