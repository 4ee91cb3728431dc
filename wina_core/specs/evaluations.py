"""The measurements of a gated model, unit by unit, and the texts that they, calibration, rotation and allocation
read.
"""

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator

from wina_core.specs.base import Spec, SpecPart

Scored = Literal["all", "second_half"]
SECOND_HALF = "scored in second halves"
"""Part of the label of a text whose second halves of rows are scored."""


class TextSpec(Spec):
    """`tokens // sequence` rows of `sequence` tokens, spread evenly over a text.

    `source` is a UTF-8 file; or "demo:calibration", "demo:training" or "demo:heldout" for the shipped ones; or a file
    of JSON lines with a column "text" or "page", with a range of its rows if wanted, as in test.jsonl[3500:5153]; or
    the same of a data folder, as in data:lambada_openai[3500:]."""

    source: str = "demo:calibration"
    tokens: int = Field(default=16_384, ge=64)
    sequence: int = Field(default=512, ge=16)
    fingerprint: str = ""
    """Digest of a user's file (`model_info.resolve.resolve_text`); empty until resolved, and for shipped texts."""
    scored: Scored = "all"
    """The positions of each row whose predictions are compared: all but BOS's, or, as llama-perplexity does, those of
    the second half that predict a token of the row."""

    @property
    def label(self) -> str:
        """Return a short name, for example "16384 tokens of wikitext.txt 3fa9c1"."""
        *folders, name = re.split(r"[/\\]", self.source)
        if folders and (match := re.fullmatch(r"(?:test|validation|train)\.jsonl(.*)", name)):
            name = folders[-1] + match[1]  # splits of all data sets have equal names
        words = [
            f"{self.tokens} tokens",
            f"in rows of {self.sequence}" if self.sequence != 512 else "",
            f"of {name}",
            self.fingerprint[:6],
            SECOND_HALF if self.scored == "second_half" else "",
        ]
        return " ".join(word for word in words if word)


Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
NetworkName = Literal["lemma", "theorem"]

FIDELITY = "fidelity"
"""Name of the unit that compares a run's logits with the same model's without gates, beside one unit per lm-eval
task."""

ORIGINAL = "original"
"""Name of the unit that compares a run's logits with the original's: dense, unrotated, unquantized, in float32 over
the stored weights."""

COST = "cost"
"""Name of the unit that counts the cost of a generated token, from the model's config alone."""

SYNTHETIC = "synthetic"
"""Name of the unit that gates random networks instead of a model (paper, section 3.4), and the location of the
ModelSource of such runs."""

OWN_UNITS = (COST, ORIGINAL, FIDELITY, SYNTHETIC)
"""Units of the workbench's own, which are not tasks and have no documents."""

MOST_DOCUMENTS, MOST_EXAMPLES = 10**9, 10**4
"""Of a task, and in a prompt; larger numbers are typing mistakes."""

COST_CONTEXT = 2048
"""Positions that a token attends to where its cost is counted and no other number is chosen."""

PREFILL_POLICIES = {
    "gate every token": 0.0,
    "WINA as released": 0.01,
    "TEAL as released": 0.5,
    "R-Sparse as released": 0.9,
}
"""Named values of `EvaluationSpec.dense_prefix`. The default gates every token, for fair comparisons."""


class SyntheticSpec(Spec):
    """Random networks instead of a model: the synthetic study of the paper's section 3.4."""

    networks: tuple[NetworkName, ...] = Field(default=("lemma", "theorem"), min_length=1)
    """One column-orthogonal matrix, or two with SiLU and half the width between them (`compute.synthetic`)."""
    size: int = Field(default=1024, ge=4, le=4096)
    """Inputs of the networks."""
    seeds: int = Field(default=20, ge=1, le=1000)

    @field_validator("networks")
    @classmethod
    def _distinct(cls, networks: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(networks))

    @property
    def label(self) -> str:
        """Return a short name, for example "20 seeds of size 1024"."""
        return f"{self.seeds} seeds of size {self.size}"


class TaskSpec(SpecPart):
    """One lm-eval task, group or tag with its own settings; None for those of the evaluation."""

    name: str = Field(min_length=1)
    num_fewshot: int | None = Field(default=None, ge=0, le=MOST_EXAMPLES)
    limit: int | None = Field(default=None, ge=1, le=MOST_DOCUMENTS)
    first: int = Field(default=0, ge=0, le=MOST_DOCUMENTS)
    """Number of the first evaluated document, from 0: documents before it may be read for calibration."""
    max_gen_toks: int | None = Field(default=None, ge=1)
    """Largest number of tokens of a completion, instead of the task's own, for a short context."""
    metric: str | None = Field(default=None, min_length=1)
    """The metric in tables, as "exact_match,flexible-extract"; all are stored, and no number depends on it."""

    @property
    def documents(self) -> str:
        """Return the evaluated documents in words, for example "the first 100 documents"."""
        count = "all" if self.limit is None else f"{self.limit:,}"
        if self.first:
            return f"{count} documents from number {self.first:,} on"
        return "all documents" if self.limit is None else f"the first {count} documents"


class EvaluationSpec(Spec):
    """The measurements of a gated model: lm-eval tasks, its fidelity on texts, the cost of a token.

    `dense_prefix` is the fraction of each sequence's first tokens that stays dense (see PREFILL_POLICIES). `limit` is
    the number of documents per task; None for all.
    """

    tasks: tuple[str | TaskSpec, ...] = ()
    """Tasks without settings of their own are kept as names."""
    task_folders: tuple[str, ...] = ()
    """Folders of lm-eval task files beside the stock and demo ones."""
    task_fingerprint: str = ""
    """Digest of all files in them (`wina_core.model_info.resolve.resolve_data`); empty until resolved."""
    data_folder: str | None = None
    """Folder of local data instead of the Hugging Face Hub's; "demo" for the shipped one.

    It holds a folder for each task, named as the task or as its name's beginning before an underscore (mmlu serves
    mmlu_anatomy), with a file for each split: validation.jsonl or test.parquet."""
    data_fingerprint: str = ""
    """Digest of all data in it (`wina_core.model_info.resolve.resolve_data`); empty until resolved."""
    limit: int | None = Field(default=None, ge=1, le=MOST_DOCUMENTS)
    num_fewshot: int | None = Field(default=None, ge=0, le=MOST_EXAMPLES)
    chat_template: bool = False
    """Ask the tasks within the model's chat template, few-shot examples as earlier turns: lm-eval's
    apply_chat_template."""
    batch_size: Annotated[int, Field(ge=1, le=2**16)] | Literal["auto"] = 16
    """Sequences per forward pass; "auto": as many as memory allows."""
    seed: int = Field(default=1234, ge=0, lt=2**32)
    dense_prefix: Fraction = 0.0
    fidelity: TextSpec | None = Field(default=TextSpec(source="demo:heldout"), alias="deviation")
    """Text whose logits are compared with the same model's without gates; None not to."""
    original: TextSpec | None = None
    """Text whose logits are compared with the original model's, computed in float32; None not to."""
    cost_context: int | None = Field(default=None, ge=1, le=2**31)
    """Positions that a generated token attends to, itself included, to count its cost; None not to."""
    synthetic: SyntheticSpec | None = None
    """When given, the only measurement; no model is loaded."""

    @field_validator("fidelity", "original", mode="before")
    @classmethod
    def _without(cls, text: object) -> object:
        # TOML has no None: its files say false.
        return None if text is False else text

    @field_validator("tasks")
    @classmethod
    def _distinct(cls, tasks: tuple[str | TaskSpec, ...]) -> tuple[str | TaskSpec, ...]:
        """Drop repeated tasks; refuse one name with two settings, and names of the workbench's own units."""
        plain = tuple(dict.fromkeys(plain_task(task) for task in tasks))
        names = [_name(task) for task in plain]
        for reserved in set(OWN_UNITS) & set(names):
            raise ValueError(f'"{reserved}" is a measurement of the workbench\'s own, not a task; rename the task')
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f'the task "{name}" is named twice with different settings; make it two studies')
        return plain

    @property
    def task_names(self) -> tuple[str, ...]:
        return tuple(_name(task) for task in self.tasks)

    def task(self, name: str) -> TaskSpec:
        """Return one of the tasks with all its settings; KeyError for an unknown name."""
        for task in self.tasks:
            if _name(task) == name:
                spec = TaskSpec(name=name) if isinstance(task, str) else task
                common = ("num_fewshot", "limit")
                return spec.model_copy(
                    update={field: getattr(self, field) for field in common if getattr(spec, field) is None}
                )
        raise KeyError(name)

    @property
    def metrics(self) -> dict[str, str]:
        """Return the requested metric in tables, by task, where one is named."""
        return {task.name: task.metric for task in self.tasks if isinstance(task, TaskSpec) and task.metric is not None}

    @property
    def units(self) -> tuple[str, ...]:
        """Return the units in order; each is stored as a whole once finished."""
        if self.synthetic:
            return (SYNTHETIC,)
        requests = {COST: self.cost_context, ORIGINAL: self.original, FIDELITY: self.fidelity}
        return (*(unit for unit, requested in requests.items() if requested), *self.task_names)

    def independent_values(self, unit: str, n: int | None) -> int | None:
        """Return how many independent values a unit's metric of `n` documents or tokens is over: rows of a text."""
        text = {ORIGINAL: self.original, FIDELITY: self.fidelity}.get(unit)
        return n if text is None else text.tokens // text.sequence

    @property
    def texts(self) -> tuple[TextSpec, ...]:
        return tuple(dict.fromkeys(text for text in (self.original, self.fidelity) if text is not None))


def plain_task(task: str | TaskSpec) -> str | TaskSpec:
    """Return a task without settings as its name."""
    # Equal evaluations have equal hashes, however their tasks were written.
    return task.name if isinstance(task, TaskSpec) and task == TaskSpec(name=task.name) else task


def _name(task: str | TaskSpec) -> str:
    return task if isinstance(task, str) else task.name
