"""A stored run's results, the original model's beside them, and the texts and documents that they were measured on."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from wina_core.model_info.names import last_part
from wina_core.report.sparse_runs import original_rows
from wina_core.specs import COST, FIDELITY, ORIGINAL, EvaluationSpec, RunSpec
from wina_core.store import MetricFilter, Store
from wina_core.store.metric_rows import MetricRow


def chat_template_text(evaluation: EvaluationSpec, has_template: bool) -> str:
    """Return whether tasks were asked within a chat template; empty where the model may have none."""
    if evaluation.chat_template:
        return "chat template applied"
    return "chat template not applied" if has_template else ""


class Results(NamedTuple):
    """A run's results."""

    metrics: Sequence[MetricRow]
    original: Mapping[tuple[str, str], MetricRow]
    """The original model's on the same requests, by task and metric."""
    evaluation: EvaluationSpec
    has_template: bool
    """True where the model is known to have a chat template."""

    @classmethod
    def read(cls, store: Store, run: RunSpec) -> Self:
        """Return the results of a stored run."""
        rows = store.metric_rows(MetricFilter(runs=(run.content_hash(),)))
        summary = store.model_summary(run.model)
        has_template = summary is not None and summary.chat_template
        return cls(rows, original_rows(store, run, rows), run.evaluation, has_template)

    @property
    def has_tasks(self) -> bool:
        """Return whether there are results of tasks."""
        return any(row.unit in self.evaluation.task_names for row in self.metrics)

    @property
    def settings(self) -> dict[str, str]:
        """Return what the units with results were measured on, in words."""
        units = dict.fromkeys(row.unit for row in self.metrics)
        return {unit: text for unit in self.evaluation.units if unit in units and (text := self._measured_on(unit))}

    def _measured_on(self, unit: str) -> str:
        evaluation = self.evaluation
        if unit == FIDELITY and evaluation.fidelity:
            return f"{evaluation.fidelity.label}, against the same model without gates"
        if unit == ORIGINAL and evaluation.original:
            return f"{evaluation.original.label}, against the original model: dense, unrotated, not quantized"
        if unit == COST:
            return f"counted for a token that attends to {evaluation.cost_context} positions"
        if unit not in evaluation.task_names:
            return ""
        task = evaluation.task(unit)
        parts = [task.documents]
        parts += [f"{task.num_fewshot}-shot" if task.num_fewshot is not None else "few-shot as the task has it"]
        parts += filter(None, [chat_template_text(evaluation, self.has_template)])
        parts += [f"completions of at most {task.max_gen_toks} tokens"] if task.max_gen_toks else []
        parts += [f"local data, {last_part(evaluation.data_folder)}"] if evaluation.data_folder else []
        return ", ".join(parts)
