"""What is measured on a gated model, unit by unit."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from wina_core.specs.base import Spec
from wina_core.specs.sources import TextSpec

Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
NetworkName = Literal["lemma", "theorem"]

DEVIATION = "deviation"
"""Name of the unit of work that compares a run's logits with the dense model's, beside one unit per lm-eval task."""

COST = "cost"
"""Name of the unit of work that counts what a generated token costs, from the model's config alone."""

SYNTHETIC = "synthetic"
"""Name of the unit of work that gates random networks instead of a model (paper, section 3.4), and the location of
the ModelSource that such runs have."""

OWN_UNITS = (COST, DEVIATION, SYNTHETIC)
"""Units that are measurements of the workbench's own, not tasks: they have no documents."""

MOST_DOCUMENTS, MOST_EXAMPLES = 10**9, 10**4
"""Of a task, and in a prompt: what larger numbers are slips of."""

PREFILL_POLICIES = {
    "gate every token": 0.0,
    "WINA as released": 0.01,
    "TEAL as released": 0.5,
    "R-Sparse as released": 0.9,
}
"""Named values of `EvaluationSpec.dense_prefix`; the default gates every token, so that methods compare fairly."""


class SyntheticSpec(Spec):
    """Random networks gated instead of a model: the synthetic study of the paper's section 3.4."""

    networks: tuple[NetworkName, ...] = Field(default=("lemma", "theorem"), min_length=1)
    """One column-orthogonal matrix, or two of half the width in between with SiLU (`compute.synthetic`)."""
    size: int = Field(default=1024, ge=4, le=4096)
    """Inputs of the networks."""
    seeds: int = Field(default=20, ge=1, le=1000)

    @field_validator("networks")
    @classmethod
    def _distinct(cls, networks: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(networks))

    @property
    def label(self) -> str:
        """Short name for tables and plots, for example "20 seeds of size 1024"."""
        return f"{self.seeds} seeds of size {self.size}"


class TaskSpec(BaseModel):
    """One lm-eval task, group or tag, with what is particular to it; None stands for what holds for all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    num_fewshot: int | None = Field(default=None, ge=0, le=MOST_EXAMPLES)
    limit: int | None = Field(default=None, ge=1, le=MOST_DOCUMENTS)
    max_gen_toks: int | None = Field(default=None, ge=1)
    """The most tokens that an answer may have, instead of the task's own number, as a short window needs it."""
    metric: str | None = Field(default=None, min_length=1)
    """The metric that tables show, as "exact_match,flexible-extract"; all are stored, and no number depends on it."""


class EvaluationSpec(Spec):
    """What is measured on a gated model: lm-eval tasks, the deviation from dense on a text, what a token costs.

    `dense_prefix` is the fraction of each sequence's first tokens that is left dense (see PREFILL_POLICIES).
    `limit` is the number of documents per task; None means all.
    """

    tasks: tuple[str | TaskSpec, ...] = ()
    """Those with nothing particular are kept as their names."""
    task_folders: tuple[str, ...] = ()
    """Folders of lm-eval task files searched beside the stock ones; the demo's own tasks are always found."""
    task_fingerprint: str = ""
    """Digest of all files in them (`wina_core.sources.resolve.resolve_data`); empty until resolved."""
    data_folder: str | None = None
    """Folder with local data in place of the hub's, "demo" for the shipped one: in it a folder for each task, named as
    the task or as its name begins up to an underscore (mmlu serves mmlu_anatomy), with a file for each split, as
    validation.jsonl or test.parquet."""
    data_fingerprint: str = ""
    """Digest of all data in it (`wina_core.sources.resolve.resolve_data`); empty until resolved."""
    limit: int | None = Field(default=None, ge=1, le=MOST_DOCUMENTS)
    num_fewshot: int | None = Field(default=None, ge=0, le=MOST_EXAMPLES)
    batch_size: Annotated[int, Field(ge=1, le=2**16)] | Literal["auto"] = 16
    """Sequences per forward pass; "auto": as many as memory allows."""
    seed: int = Field(default=1234, ge=0, lt=2**32)
    dense_prefix: Fraction = 0.0
    deviation: TextSpec | None = TextSpec(source="demo:heldout")
    cost_context: int | None = Field(default=None, ge=1, le=2**31)
    """When given, what a generated token costs that attends to so many positions, itself included, is counted too."""
    synthetic: SyntheticSpec | None = None
    """When given, this alone is measured, and no model is loaded."""

    @field_validator("deviation", mode="before")
    @classmethod
    def _without(cls, deviation: object) -> object:
        """`false` stands for None, which TOML cannot write."""
        return None if deviation is False else deviation

    @field_validator("tasks")
    @classmethod
    def _distinct(cls, tasks: tuple[str | TaskSpec, ...]) -> tuple[str | TaskSpec, ...]:
        """Each unit of work has a name of its own: a task named twice alike is measured once."""
        plain = tuple(dict.fromkeys(_plain(task) for task in tasks))
        names = [_name(task) for task in plain]
        for reserved in {DEVIATION, SYNTHETIC, COST} & set(names):
            raise ValueError(f'"{reserved}" is a measurement of the workbench\'s own, not a task; rename the task')
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f'the task "{name}" is named twice with different settings; make it two studies')
        return plain

    @property
    def task_names(self) -> tuple[str, ...]:
        """The tasks' names, in order."""
        return tuple(_name(task) for task in self.tasks)

    def task(self, name: str) -> TaskSpec:
        """What holds for one of the tasks; KeyError for another."""
        for task in self.tasks:
            if _name(task) == name:
                own = TaskSpec(name=name) if isinstance(task, str) else task
                return own.model_copy(
                    update={
                        "num_fewshot": self.num_fewshot if own.num_fewshot is None else own.num_fewshot,
                        "limit": self.limit if own.limit is None else own.limit,
                    }
                )
        raise KeyError(name)

    @property
    def metrics(self) -> dict[str, str]:
        """Task: the metric that tables are to show of it, where one is named."""
        return {task.name: task.metric for task in self.tasks if isinstance(task, TaskSpec) and task.metric is not None}

    @property
    def units(self) -> tuple[str, ...]:
        """The units of work in order; each is stored as a whole the moment it is finished."""
        if self.synthetic:
            return (SYNTHETIC,)
        own = ((COST,) if self.cost_context else ()) + ((DEVIATION,) if self.deviation else ())
        return (*own, *self.task_names)


def _plain(task: str | TaskSpec) -> str | TaskSpec:
    """A task with nothing particular as its name, so that equal evaluations have equal hashes."""
    return task.name if isinstance(task, TaskSpec) and task == TaskSpec(name=task.name) else task


def _name(task: str | TaskSpec) -> str:
    return task if isinstance(task, str) else task.name
