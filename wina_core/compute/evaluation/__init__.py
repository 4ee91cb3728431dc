"""Measurements on a model: the fidelity of its logits to the dense model's, and lm-eval tasks.

Those of tasks are imported from `harness` and `tasks` only when one is measured: lm-eval takes a second and 0.17 GB.
"""

from wina_core.compute.evaluation.fidelity import measure_fidelity
from wina_core.compute.evaluation.original import measure_original

__all__ = ["measure_fidelity", "measure_original"]
