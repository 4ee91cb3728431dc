"""The axes of the frontier: kinds of cost, and a quality."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from wina_core.specs import COST, ORIGINAL

CostAxis = Literal["bytes_read", "memory", "flops", "tokens_per_s", "bits_read", "bits_held", "gated", "net"]

ROUNDING = 1e-6
"""KL divergences below, in nats, are rounding."""
_COUNT = "evaluate with a context for the cost of a token."
_TIME = "time decoding on the Latency page, or with wina latency."
_MEASURE = "evaluate some configurations, with their fidelity to the original."


class Axis(NamedTuple):
    """One kind of cost, or of what is saved."""

    title: str
    unit: str
    scale: float
    """Factor of the stored numbers in the unit."""
    higher_is_better: bool
    metric: str = ""
    """Stored metric; empty for another source."""
    task: str = COST
    """Its task."""
    imported: str = ""
    """Metric of imported points (`imports.metrics`); empty where they have none."""
    advice: str = _COUNT
    """Where its numbers come from."""

    @property
    def label(self) -> str:
        return f"{self.title} ({self.unit})"


AXES: dict[CostAxis, Axis] = {
    "bytes_read": Axis("Bytes read per token", "MB", 1e-6, False, "net_bytes", imported="bytes_read"),
    "memory": Axis("Memory held", "MB", 1e-6, False, "bytes_held", imported="memory"),
    "flops": Axis("Operations per token", "MFLOP", 1e-6, False, "net_flops"),
    "tokens_per_s": Axis("Decoding speed", "tokens/s", 1.0, True, imported="tokens_per_s", advice=_TIME),
    "bits_read": Axis("Bits read per weight", "bits", 1.0, False, "bits_read", ORIGINAL, advice=_MEASURE),
    "bits_held": Axis("Bits held per weight", "bits", 1.0, False, "bits_held", ORIGINAL, "bits", _MEASURE),
    "gated": Axis("Gated sparsity", "%", 100.0, True, advice=_MEASURE),
    "net": Axis("Net sparsity", "%", 100.0, True, advice=_MEASURE),
}


class Quality(NamedTuple):
    """One metric of one task, with its better direction."""

    task: str = ORIGINAL
    metric: str = "kl"
    higher_is_better: bool | None = False

    @property
    def title(self) -> str:
        return f"{self.task} {self.metric}"

    @property
    def imported(self) -> str:
        """Return its name in imported points; lm-eval's are named by task and metric."""
        return self.metric if self.task == ORIGINAL else self.title

    @property
    def is_divergence(self) -> bool:
        return self.metric.startswith("kl")

    def height(self, value: float) -> float:
        """Return the height at which a value is drawn."""
        # A logarithmic axis has no place for a divergence of 0.
        return max(value, ROUNDING) if self.is_divergence else value


def front_steps(points: Sequence[tuple[float, float]], *, x_up: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return x and y of a front's steps through its points, given in the order of x.

    At a cost between two points one has the quality of the cheaper. With `x_up` higher x is better: at a speed between
    two, one has the quality of the faster.
    """
    steps = list(points[:1])
    for (x, y), (x_next, y_next) in pairwise(points):
        steps += [(x, y_next) if x_up else (x_next, y), (x_next, y_next)]
    return tuple(x for x, _ in steps), tuple(y for _, y in steps)
