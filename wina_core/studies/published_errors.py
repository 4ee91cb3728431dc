"""The paper's table of approximation errors over randomly initialized networks (section 3.4)."""

from typing import NamedTuple

from wina_core.specs import SYNTHETIC
from wina_core.studies.published import published_value


class ErrorBar(NamedTuple):
    """Mean and deviation over 20 seeds."""

    mean: float
    deviation: float

    def holds(self, value: float) -> bool:
        """Return whether the value, to the table's two digits, is at most one deviation from the mean."""
        return abs(round(value, 2) - self.mean) <= self.deviation + 1e-9


SPARSITIES = (0.25, 0.40, 0.50, 0.65)
SIZE = 1024
"""The width that reproduces the table; the paper does not state it."""

_ARMS = {"teal": "TEAL", "cats": "CATS", "rsparse": "R-Sparse", "wina": "WINA"}
"""The methods' names in the registry: those in the paper."""


def paper_error(network: str, method: str, sparsity: float) -> ErrorBar | None:
    """Return the table's cell or None; CATS shares TEAL's row."""
    configuration = _ARMS.get(method, method)
    mean, deviation = (
        published_value("synthetic", SYNTHETIC, configuration, sparsity, network, metric)
        for metric in ("error", "error_deviation")
    )
    return None if mean is None or deviation is None else ErrorBar(mean, deviation)
