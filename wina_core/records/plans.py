"""Calibrations, allocations of a budget, and exported models."""

from typing import Literal

from pydantic import FiniteFloat

from wina_core.records.base import Record
from wina_core.records.units import ExpertRecord, LayerRecord
from wina_core.specs import Selection
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.quantization import PlanPair

THRESHOLD_METRICS: dict[Selection, str] = {
    "topk": "threshold",
    "threshold": "threshold",
    "statistical": "deviation_threshold",
    "top_p": "mass_threshold",
    "mixed": "threshold",
}
"""Stored name of each selection's calibrated thresholds: of scores, of standard deviations, of shares of the mass."""
EXPERT_TOKENS = "expert_tokens"
"""Metric of each expert in a calibration: the tokens of the text that read it."""
LEAST_EXPERT_TOKENS = 128
"""An expert that reads fewer tokens of the text takes the thresholds of its layer, over all experts."""


class CalibrationRecord(Record):
    """Score thresholds and error curves of one model, rotation and method."""

    key: str
    """Name in the cache: hash over model, rotation, method's score and calibration spec."""
    tokens: int
    layers: tuple[LayerRecord, ...]
    """metrics "relative_error", "kept_energy" and one of THRESHOLD_METRICS, x = target; and of the weights alone
    "norm_spread" and "off_diagonal_energy", without x."""
    experts: tuple[ExpertRecord, ...] = ()
    """EXPERT_TOKENS of a Mixture of Experts."""
    seconds: float


class AllocationRecord(Record):
    """A budget allocated to a model's cells."""

    key: str
    """Name in the cache: hash over model, rotation, method, allocator and budget."""
    plan: SparsityPlan
    objective: str
    """The minimized quantity: "nothing" (uniform), "layer error", "curve error", "KL"."""
    value: FiniteFloat
    """The objective at `plan`."""
    bound: FiniteFloat | None = None
    """Lower bound of all plans of this budget on the same curves; None where nothing is proven."""
    evaluations: int = 0
    """Forward passes of the search, in whole models."""
    seconds: float
    curves: tuple[LayerRecord, ...] = ()
    """metric "kl", x = sparsity: the divergence from dense that each cell causes alone, in nats per token; cells that
    move together share it by their numbers of weights. Empty where none are measured on its text."""


class JointRecord(Record):
    """Bits and target sparsities allocated together."""

    key: str
    """Name in the cache: hash over model, rotation, method and spec."""
    pair: PlanPair
    value: FiniteFloat
    """Sum over the cells of the KL divergence that each causes alone, in nats per token."""
    bound: FiniteFloat
    """Lower bound of that sum for all choices within the budgets."""
    kl: FiniteFloat
    """KL divergence of the whole model on the same text, in nats per token."""
    bits_read: FiniteFloat
    """Bits read per token for each gated weight, as measured on the text."""
    bits_held: FiniteFloat
    evaluations: int
    """Forward passes of the search, in whole models."""
    seconds: float


GgufType = Literal["auto", "f32", "f16", "bf16", "q8_0"]
"""Types of weights that llama.cpp's converter writes; `auto` is the 16-bit type nearest to the stored one."""


class ExportRecord(Record):
    """A sparse model's folder."""

    folder: str
    bytes: int
    """Size of all its files."""


class PerplexityPair(Record):
    """Perplexities of one model in two programs on the same tokens."""

    text: str
    tokens: int
    transformers: float
    llama_cpp: float
    same_tokens: bool
    """Whether llama.cpp splits the text into the same tokens."""


class GgufRecord(Record):
    """A GGUF file of a plain model."""

    file: str
    bytes: int
    perplexity: PerplexityPair | None
    """None where llama-cpp-python is not installed."""
