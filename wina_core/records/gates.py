"""What an inspected gate is asked, and what it answers. Light."""

from typing import Literal

from pydantic import Field

from wina_core.records import Record
from wina_core.records.packed_array import PackedArray
from wina_core.specs import MethodSpec

Scored = Literal["input", "distance", "activation"]
"""What is weighed by c_i: |x_i|, |x_i - mode_i| or |act(W_gate x)_i|."""


class GateTarget(Record):
    """A method and how much of one cell it is to drop."""

    method: MethodSpec
    target: float = Field(ge=0.0, lt=1.0)
    """The fraction of the cell's weights that is not to be read, as in a plan."""
    rho: float | None = Field(default=None, gt=0.0, le=1.0)
    """The plan's share of the mask in this cell; None where the method's own applies."""


class GateDecision(Record):
    """What one method keeps of one matrix's input on each of some tokens."""

    asked: GateTarget
    scored: Scored
    magnitudes: PackedArray | None
    """What is scored in place of |x|, before it is weighed, [tokens, n]; None for |x| itself."""
    scale: PackedArray | None
    """The c that the method weighs by, [n]; None for ones."""
    quantiles: PackedArray | None
    """Threshold selection: the calibrated cuts (`wina_core.masks.threshold_grid`), float32; None for any other."""
    mask: PackedArray
    """True where an input is kept, [tokens, n]."""
    rank: int
    """Of the low-rank part that stands in for dropped inputs; 0 for none."""
    output_error: float
    """||y - W x||_F / ||W x||_F over the tokens, y being what the gated matrix computes of the same x."""
    kept_energy: float
    """Share that the kept inputs have of the sum of (|x_i| ||W[:, i]||_2)^2 over the tokens."""


class GateRecord(Record):
    """What reaches one matrix of the dense model on the tokens of a prompt, and what methods keep of it."""

    layer: int
    projection: str
    tokens: tuple[str, ...]
    """The text of each."""
    prompt_tokens: int
    """How many the whole prompt has; those beyond `tokens` were left out."""
    inputs: PackedArray
    """|x| [tokens, n]."""
    norms: PackedArray
    """||W[:, i]||_2 of the matrix itself, [n]."""
    gates: tuple[GateDecision, ...]
    seconds: float
