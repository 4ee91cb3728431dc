"""Rows of stored metrics, and what lists show of their runs."""

from typing import NamedTuple

from wina_core.model_info.cost.warning import metric_warning


class MetricRow(NamedTuple):
    """One metric of one run."""

    run: str
    """Content hash of the RunSpec."""
    model: str
    """The model's short name."""
    rotation: str
    """`RotationSpec.label`."""
    method: str
    """`MethodSpec.label`."""
    selection: str
    plan: str
    """The plan's provenance: "uniform", "edited", ..."""
    target_sparsity: float
    """The uniform target, or the plan's budget."""
    gated_sparsity: float | None
    """As measured while this metric's unit ran; None where nothing was gated."""
    net_sparsity: float | None
    task: str
    metric: str
    value: float
    stderr: float | None
    n: int | None
    higher_is_better: bool | None
    version: str | None
    """Of the task's definition."""
    num_fewshot: int | None
    prompt_hash: str | None
    """Equal for runs with the same prompts."""
    truncated: int | None
    """Prompts whose beginning was cut off."""
    settings: str
    """Evaluation settings that differ from the defaults, for example "limit 100"; empty when none does."""
    status: str
    """Of the run, one of `records.RunStatus`."""
    finished: float
    """Time at which the unit was finished, seconds since the epoch."""
    model_hash: str
    unit: str
    chosen_on_evaluation: str
    """Parts of the run that read the evaluated text, as `columns.chosen_on_evaluation`."""
    seconds: float
    """Computing time of the unit."""
    superseded: str = ""
    """A sentence on numbers that no longer have the meaning of their labels; empty otherwise."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Run, unit, task and metric, which name the row for good."""
        return self.run, self.unit, self.task, self.metric

    @property
    def warning(self) -> str:
        """Warnings about the numbers, in sentences; empty when there is none."""
        return metric_warning(
            self.gated_sparsity, self.net_sparsity, self.chosen_on_evaluation, self.task, self.superseded
        )


class RunDetails(NamedTuple):
    """Facts of one run beside its numbers."""

    tags: str
    """The user's, with commas between."""
    note: str
    pinned: bool
    seed: int
    hardware: str
    """Hardware of the last computation."""
    studies: str
    """Names of all that it is part of, with commas between."""
    rotation: str
    """All that decides it, in words (`details.rotation_details`)."""
    user: str = ""
    """Who queued or computed it last, and on which computer; empty where an older version did."""
    host: str = ""
