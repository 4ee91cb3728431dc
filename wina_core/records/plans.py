"""What is measured for plans, and how a budget was spread."""

from pydantic import FiniteFloat

from wina_core.records.base import Record
from wina_core.records.units import LayerRecord
from wina_core.specs import Selection
from wina_core.specs.plans import SparsityPlan

CUT_METRICS: dict[Selection, str] = {
    "topk": "threshold",
    "threshold": "threshold",
    "statistical": "deviation_threshold",
    "top_p": "mass_threshold",
}
"""What the calibrated cuts of a selection are stored as: of scores, of standard deviations, of shares of the mass."""


class CalibrationRecord(Record):
    """Score thresholds and error curves of one model, rotation and method."""

    key: str
    """Name in the cache: hash over model, rotation, method's score and calibration spec."""
    tokens: int
    layers: tuple[LayerRecord, ...]
    """metrics "relative_error", "kept_energy" and one of CUT_METRICS, x = target sparsity; and of the weights alone
    "norm_spread" and "off_diagonal_energy", without x."""
    seconds: float


class AllocationRecord(Record):
    """A budget spread over a model's cells."""

    key: str
    """Name in the cache: hash over model, rotation, method, allocator and budget."""
    plan: SparsityPlan
    objective: str
    """What was minimized: "nothing" (uniform), "layer error", "curve error", "KL"."""
    value: FiniteFloat
    """The objective at `plan`."""
    bound: FiniteFloat | None = None
    """No plan of this budget has a lower value on the same curves; None where nothing is proven."""
    evaluations: int = 0
    """Forward passes, in whole models, that the search took."""
    seconds: float
    curves: tuple[LayerRecord, ...] = ()
    """metric "kl", x = sparsity: the divergence from dense, in nats per token, that each cell causes alone; of cells
    that move together, split by their numbers of weights. Empty where none are measured on its text."""
