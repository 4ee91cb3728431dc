"""Measurements on a model: lm-eval tasks, and the fidelity of its logits to the dense model's."""

from wina_core.compute.evaluation.fidelity import measure_fidelity
from wina_core.compute.evaluation.harness import evaluate_task
from wina_core.compute.evaluation.original import measure_original
from wina_core.compute.evaluation.tasks import check_tasks

__all__ = ["check_tasks", "evaluate_task", "measure_fidelity", "measure_original"]
