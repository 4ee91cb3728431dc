"""What can be asked for: frozen, versioned descriptions of models, rotations, methods, evaluations and runs.

A spec says everything that a number depends on and nothing else; its content hash is its identity in the store
and in the cache. This module is light: it never imports torch.
"""

import hashlib
import json
import re
from typing import Annotated, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from wina_core.plan import Sparsity, SparsityPlan, UniformSparsity

DType = Literal["auto", "float64", "float32", "bfloat16", "float16"]
Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
Bits = Literal["int8", "int4"]
Quantization = Literal["none", Bits]
RotationMode = Literal["none", "global", "per_layer", "per_site"]
AttentionBasis = Literal["k", "qkv", "activations"]
MlpBasis = Literal["gate", "gate_up", "activations"]
Weighting = Literal["trace", "sensitivity"]
Objective = Literal["eigen", "error", "kl"]
Variant = Literal["paper", "as_released"]
Selection = Literal["topk", "threshold", "statistical", "top_p"]
Masks = Literal["separate", "shared"]
Correction = Literal["none", "mean"]
NetworkName = Literal["lemma", "theorem"]
AllocatorName = Literal["uniform", "greedy", "curves", "refine", "evolution"]

ROTATION_MODES: tuple[RotationMode, ...] = get_args(RotationMode)

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

ROLE = "role:"
"""What the location of a model begins with that a study names by its role in it, as "role:Llama-2-7B"."""

MATRICES_FILE = "wina_rotation_matrices.safetensors"
"""Name of the bases' file in an exported rotated model's folder, to be given as `RotationSpec.matrices`."""

PREFILL_POLICIES = {"gate every token": 0.0, "WINA as released": 0.01, "TEAL as released": 0.5}
"""Named values of `EvaluationSpec.dense_prefix`; the default gates every token, so that methods compare fairly."""


class Spec(BaseModel):
    """Base of all specs: immutable, closed to unknown fields, identified by content."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1

    def content_hash(self) -> str:
        """16 hex digits over the canonical JSON.

        Fields at their default are left out, so that adding a field keeps every stored hash; changing a default
        therefore needs a new `schema_version`.
        """
        content = self.model_dump(mode="json", exclude_defaults=True)
        content["schema_version"] = self.schema_version
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


class ModelSource(Spec):
    """Where a model comes from and how it is held. `location` is a local folder, a hub id, "demo", or for random
    networks "synthetic"."""

    location: str = Field(min_length=1)
    revision: str | None = None
    dtype: DType = "auto"
    device: str = "auto"
    """"auto", the accelerator if there is one; "cpu", "cuda", "cuda:1", ...; or "spread", for a model too large for one
    accelerator: its layers are spread over all of them."""
    quantization: Quantization = "none"
    """Weight-only quantization of the gated matrices after loading and rotating: int8 by torchao, int4 by HQQ."""
    fingerprint: str = ""
    """Digest of the local files (`wina_core.sources.fingerprint`), so that edited weights are never taken for the
    old ones; empty until resolved, and for hub ids."""


class TextSpec(Spec):
    """`tokens // sequence` rows of `sequence` tokens, spread evenly over a text. `source` is a UTF-8 file, or
    "demo:calibration", "demo:training" or "demo:heldout" for the shipped ones."""

    source: str = "demo:calibration"
    tokens: int = Field(default=16_384, ge=64)
    sequence: int = Field(default=512, ge=16)
    fingerprint: str = ""
    """Digest of a user's file (`wina_core.sources.resolve_text`); empty until resolved, and for shipped texts."""

    @property
    def label(self) -> str:
        """Short name for tables and plots, for example "16384 tokens of wikitext.txt 3fa9c1"."""
        name = self.source if self.source.startswith("demo:") else re.split(r"[/\\]", self.source)[-1]
        parts = [f"{self.tokens} tokens", f"in rows of {self.sequence}" if self.sequence != 512 else "", f"of {name}"]
        return " ".join(part for part in (*parts, self.fingerprint[:6]) if part)


_USUAL_BASES: tuple[tuple[AttentionBasis, ...], tuple[MlpBasis, ...]] = (
    ("qkv", "activations"),
    ("gate_up", "activations"),
)
_STEPS = 300
USUAL_EFFORT: dict[Objective, tuple[int, TextSpec]] = {
    "eigen": (_STEPS, TextSpec()),
    "error": (_STEPS, TextSpec(tokens=32_768)),
    "kl": (1000, TextSpec(source="demo:training", tokens=262_144)),
}
"""Objective of a rotation -> the steps and the text that it is proposed with, which labels do not name."""


class RotationSpec(Spec):
    """How the residual stream is rotated before gating (paper, appendix "Orthogonal Tensor Transformation").

    `global`: one Q for the whole stream, free at run time. `per_layer`, `per_site`: one Q per layer, or one per
    attention input and one per MLP input (the paper's), with d x d shortcuts on the residual. `per_head` also rotates
    V's outputs and O's inputs per head, in any mode. `matrices` replays given orthogonal matrices from a safetensors
    file instead of computing them.

    `weighting` says what is summed over the sites that share a basis: by `trace` the named Gram matrices, each divided
    by its trace; by `sensitivity`, instead of those, each site's Fisher information and, as heavy as it, the second
    moments of its activations. `objective` says how the sum becomes a basis: `eigen`, its eigenvectors; `error`, those
    improved by `steps` Cayley steps on the calibrated error of gating; `kl`, improved further on the KL divergence.
    """

    mode: RotationMode = "global"
    attention_basis: tuple[AttentionBasis, ...] = _USUAL_BASES[0]
    mlp_basis: tuple[MlpBasis, ...] = _USUAL_BASES[1]
    per_head: bool = True
    weighting: Weighting = "trace"
    objective: Objective = "eigen"
    steps: int = Field(default=_STEPS, ge=1)
    text: TextSpec = TextSpec()
    matrices: str | None = None
    matrices_fingerprint: str = ""
    """Digest of the file of given matrices (`wina_core.sources.resolve_rotation`); empty until resolved."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.mode != "none" and not self.matrices and not (self.attention_basis and self.mlp_basis):
            raise ValueError("a rotation needs at least one basis for the attention and one for the MLP inputs")
        if self.weighting == "sensitivity" and (self.attention_basis, self.mlp_basis) != _USUAL_BASES:
            raise ValueError("sites weighted by sensitivity have no named bases; leave those out, or weight by trace")
        return self

    @property
    def is_identity(self) -> bool:
        """True when the weights stay as they are."""
        return self.mode == "none" and not self.per_head

    @property
    def label(self) -> str:
        """Short name for tables and plots, for example "global + heads"."""
        if self.is_identity:
            return "none"
        text: str = self.mode
        if self.matrices:
            file = re.split(r"[/\\]", self.matrices)[-1]
            text += f" (given: {' '.join(part for part in (file, self.matrices_fingerprint[:6]) if part)})"
        else:
            steps, read = USUAL_EFFORT[self.objective]
            text += self._basis_label
            if self.objective != "eigen":
                text += " refined" if self.objective == "error" else " refined on KL"
                text += f" in {self.steps} steps" if self.steps != steps else ""
            elif self.weighting == "sensitivity" and self.mode != "none":
                text += " by sensitivity"
            if self.reads_text and self.text != read:
                text += f" on {self.text.label}"
        return f"{text} + heads" if self.per_head else text

    @property
    def reads_text(self) -> bool:
        """Whether the bases depend on `text`."""
        if self.matrices or self.is_identity:
            return False
        by_stream = "activations" in (*self.attention_basis, *self.mlp_basis) or self.weighting == "sensitivity"
        return self.objective != "eigen" or (self.mode != "none" and by_stream)

    @property
    def _basis_label(self) -> str:
        bases = {"+".join(self.attention_basis), "+".join(self.mlp_basis)}
        if self.mode == "none" or bases == {"qkv+activations", "gate_up+activations"}:
            return ""
        if bases == {"activations"}:
            return " (activations)"
        return f" ({'+'.join(self.attention_basis)}, {'+'.join(self.mlp_basis)})"


NO_ROTATION = RotationSpec(mode="none", per_head=False)
AS_RELEASED_ROTATION = RotationSpec(mode="per_site", attention_basis=("k",), mlp_basis=("gate",), per_head=False)
"""The published transform: bases from k_proj and gate_proj alone, with residual shortcuts."""
FREE_ROTATION = RotationSpec(weighting="sensitivity", objective="error", text=USUAL_EFFORT["error"][1])
"""What the window and the command line propose: one Q for the stream and one per head, refined on the calibrated error
of gating, and nothing to compute at run time."""
FREE_KL_ROTATION = RotationSpec(
    weighting="sensitivity", objective="kl", steps=USUAL_EFFORT["kl"][0], text=USUAL_EFFORT["kl"][1]
)
"""The same refined further on the gated model's KL divergence: the best and by far the slowest to find."""


class MethodSpec(Spec):
    """A gate rule by its registry name, and how it selects.

    `topk` keeps exactly n - floor(s n + 1/2) of n inputs per token, at least one. The others keep what exceeds a value
    calibrated to drop the target fraction: `threshold` of the score itself, `statistical` of the score's distance from
    its token's mean in standard deviations, `top_p` of the share of its token's mass that is not above it. `variant`
    picks between the paper's text and the authors' released code where the two differ. With `shared` masks, q, k, v
    keep the same inputs, and so do gate, up: c_i^2 is summed over the matrices, as a fused kernel needs it.
    """

    name: str = Field(min_length=1)
    variant: Variant = "paper"
    selection: Selection = "topk"
    masks: Masks = "separate"
    correction: Correction = "none"
    """`mean`: a dropped input counts as its calibrated mean over the tokens that drop it, at the cost of a bias."""
    rho: float | None = Field(default=None, gt=0.0, le=1.0)
    """R-Sparse: share of the kept budget that goes to the mask, the rest to the low-rank part; None for its default."""

    @property
    def label(self) -> str:
        """Short name for tables and plots, for example "wina (as released, shared masks)"."""
        details = [
            "as released" if self.variant == "as_released" else "",
            "shared masks" if self.masks == "shared" else "",
            "mean correction" if self.correction == "mean" else "",
            f"rho {self.rho:g}" if self.rho is not None else "",
        ]
        text = ", ".join(filter(None, details))
        return f"{self.name} ({text})" if text else self.name

    @property
    def needs_calibration(self) -> bool:
        """Whether its cuts, its centres, or what its dropped inputs count as, are read from a calibration."""
        from wina_core.methods import METHODS  # which import this module

        method = METHODS.get(self.name)  # a stored spec may name one that is no more
        centred = method is not None and method.centred
        return self.name != "dense" and (centred or self.selection != "topk" or self.correction != "none")


DENSE = MethodSpec(name="dense")


class CalibrationSpec(Spec):
    """The text from which score thresholds and error curves are measured."""

    text: TextSpec = TextSpec(source="demo:calibration", tokens=49_152)


class DivergenceSpec(Spec):
    """The text on which the divergence that each cell causes alone was measured: what an allocator leaves in the store
    beside calibrations."""

    divergence_text: TextSpec


class SyntheticSpec(Spec):
    """Random networks gated instead of a model: the synthetic study of the paper's section 3.4."""

    networks: tuple[NetworkName, ...] = Field(default=("lemma", "theorem"), min_length=1)
    """One column-orthogonal matrix, or two of half the width in between with SiLU (see `wina_core.synthetic`)."""
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
    """Digest of all files in them (`wina_core.sources.resolve_data`); empty until resolved."""
    data_folder: str | None = None
    """Folder with local data in place of the hub's, "demo" for the shipped one: in it a folder for each task, named as
    the task or as its name begins up to an underscore (mmlu serves mmlu_anatomy), with a file for each split, as
    validation.jsonl or test.parquet."""
    data_fingerprint: str = ""
    """Digest of all data in it (`wina_core.sources.resolve_data`); empty until resolved."""
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


class AllocatorSpec(Spec):
    """How a budget is spread over the cells of a plan (decoder layer x projection).

    `uniform`: the same target everywhere. `greedy`: TEAL's, every layer the same budget; `as_released` with its
    published weights and overshoot, else corrected. `curves`: the optimum over all layers of each cell's own KL
    divergence, by Lagrange multipliers. `refine`: from `curves` on, moves budget between cells while the measured KL
    falls. `evolution`: an evolutionary search over s and, for R-Sparse, rho.
    """

    name: AllocatorName = "uniform"
    variant: Literal["corrected", "as_released"] = "corrected"
    step: float = Field(default=0.025, gt=0.0, le=0.5)
    """Greedy: the sparsity that one step adds to q; to the others in inverse proportion to their weights. Others: the
    smallest move between cells."""
    rounds: int = Field(default=20, ge=1)
    """Refine: passes over the cells; evolution: generations."""
    text: TextSpec = TextSpec(tokens=8_192)
    """Where errors and divergences are measured."""
    seed: int = Field(default=0, ge=0)

    @property
    def label(self) -> str:
        """Short name for tables and plots, for example "refine (6 rounds)": whatever it depends on and differs from the
        default, so that no two allocators share a line of a plot, and one that saw the text of the evaluation shows it.
        """
        default = AllocatorSpec()
        searches = self.name in ("refine", "evolution")
        details = {
            "as released": self.variant != default.variant and self.name == "greedy",
            f"step {self.step:g}": self.step != default.step,
            f"{self.rounds} round{'s' if self.rounds > 1 else ''}": self.rounds != default.rounds and searches,
            f"seed {self.seed}": self.seed != default.seed and self.name == "evolution",
            f"on {self.text.label}": self.text != default.text,
        }
        text = ", ".join(detail for detail, told in details.items() if told)
        return f"{self.name} ({text})" if text and self.name != "uniform" else self.name


class AllocatedSparsity(BaseModel):
    """A budget and the allocator that spreads it; the table itself is worked out where the model is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["allocated"] = "allocated"
    sparsity: Sparsity
    """The budget: mean target over all cells, weighted by their numbers of weights."""
    allocator: AllocatorSpec

    @property
    def budget(self) -> float:
        """The budget, named as a table's."""
        return self.sparsity

    @property
    def origin(self) -> str:
        """The allocator's label, named as a table's."""
        return self.allocator.label


Plan = Annotated[UniformSparsity | SparsityPlan | AllocatedSparsity, Field(discriminator="kind")]


class RunSpec(Spec):
    """One point of a study: one model, rotation, method and plan, and what to measure on it."""

    model: ModelSource
    rotation: RotationSpec = NO_ROTATION
    method: MethodSpec = DENSE
    plan: Plan = UniformSparsity(sparsity=0.0)
    calibration: CalibrationSpec | None = None
    evaluation: EvaluationSpec = EvaluationSpec()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.method.needs_calibration and self.calibration is None:
            raise ValueError(f"{self.method.label} with {self.method.selection} selection needs a calibration")
        check_synthetic((self.model,), self.evaluation)
        return self


class Arm(Spec):
    """A method together with the rotation it runs on: one line of a frontier plot."""

    name: str = ""
    """What the study calls it, in the paper's words where it repeats the paper: "WINA", "TEAL-transform"."""
    rotation: RotationSpec = NO_ROTATION
    method: MethodSpec = DENSE
    sparsities: tuple[Fraction, ...] = ()
    """Its own in place of the study's, for a method that does not reach all of those; empty for the study's."""
    roles: tuple[str, ...] = ()
    """The study's roles whose models it is for, where models need different rotations; empty for every model."""

    @property
    def label(self) -> str:
        """Legend text, for example "wina, global + heads"."""
        return self.method.label if self.rotation.is_identity else f"{self.method.label}, {self.rotation.label}"


def check_synthetic(models: tuple[ModelSource, ...], evaluation: EvaluationSpec) -> None:
    """Random networks are measured under their own name, and nothing else is."""
    if any((model.location == SYNTHETIC) != (evaluation.synthetic is not None) for model in models):
        raise ValueError(f'the model "{SYNTHETIC}" and `evaluation.synthetic` belong together: give both or neither')
