"""Jobs of an engine."""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from wina_core.records.base import Record
from wina_core.records.gates import GateTarget
from wina_core.records.plans import GgufType
from wina_core.specs import (
    NO_ROTATION,
    AllocatedSparsity,
    CalibrationSpec,
    FoldNorms,
    JointSpec,
    MethodSpec,
    ModelSource,
    RotationMode,
    RotationSpec,
    RunSpec,
)
from wina_core.specs.generation import MOST_TOKENS, CompletionPoint, CompletionSpec, SamplingSpec
from wina_core.specs.latency import DecodeSpec, LatencySpec
from wina_core.specs.plans import SparsityPlan, UniformSparsity


class Message(Record):
    """Base of all messages."""


def encode(message: Message) -> str:
    return message.model_dump_json() + "\n"


class JobSpec(Message):
    """Base of all jobs of an engine."""

    interactive: ClassVar[bool] = False
    """True if the user waits for it in front of the screen; results of the others are read later."""
    timed: ClassVar[bool] = False
    """True if it measures times, which other work would disturb."""

    @property
    def first_model(self) -> ModelSource | None:
        """The model that it works on first; None for one without a model."""
        return getattr(self, "model", None) or getattr(getattr(self, "spec", None), "model", None)


class InspectJob(JobSpec):
    """Load a model and describe it. Result: ModelSummary."""

    kind: Literal["inspect"] = "inspect"
    interactive = True
    model: ModelSource


class RotateJob(JobSpec):
    """Rotate a model, measure the rotation and compare it with none, optionally save the rotated model as a folder.
    Result: RotationReport."""

    kind: Literal["rotate"] = "rotate"
    model: ModelSource
    rotation: RotationSpec
    spectra: bool = False
    """Measure the energy spectra of the inputs, too; of the model as it is, whichever rotation."""
    export_to: str | None = None


class CalibrateJob(JobSpec):
    """Measure score quantiles and error curves. Result: CalibrationRecord."""

    kind: Literal["calibrate"] = "calibrate"
    model: ModelSource
    rotation: RotationSpec
    method: MethodSpec
    calibration: CalibrationSpec


class AllocateJob(JobSpec):
    """Allocate a budget to the model's matrices; an interrupted job continues from there. Result: AllocationRecord."""

    kind: Literal["allocate"] = "allocate"
    model: ModelSource
    rotation: RotationSpec
    method: MethodSpec
    plan: AllocatedSparsity
    calibration: CalibrationSpec = CalibrationSpec()
    """For a method that needs one even with top-k selection, which the allocation uses."""


class AllocateJointlyJob(JobSpec):
    """Choose bits and target sparsities of the model's matrices together; the model's own quantization is left out.

    Result: JointRecord.
    """

    kind: Literal["joint"] = "joint"
    model: ModelSource
    rotation: RotationSpec
    method: MethodSpec
    spec: JointSpec


class CostJob(JobSpec):
    """Count the cost of a generated token from the model's config alone, without its weights. Result: CostRecord."""

    kind: Literal["cost"] = "cost"
    interactive = True
    model: ModelSource
    method: MethodSpec
    plan: Annotated[UniformSparsity | SparsityPlan, Field(discriminator="kind")]
    context: int = Field(default=2048, ge=1)
    """Positions that the token attends to, itself included."""
    rotations: tuple[RotationMode, ...] | None = None
    """None: all that are exact for the model."""
    fold_norms: FoldNorms | None = None
    """The rotations' choice; None: as the model is."""


class InspectGateJob(JobSpec):
    """Show the masks of methods for one matrix's input on a prompt, the model running dense. Result: GateRecord."""

    kind: Literal["inspect_gate"] = "inspect_gate"
    interactive = True
    model: ModelSource
    rotation: RotationSpec
    layer: int = Field(ge=0)
    projection: str
    prompt: str = Field(min_length=1)
    gates: tuple[GateTarget, ...] = Field(min_length=1)
    tokens: int = Field(default=64, ge=1, le=512)
    """Maximum number of the prompt's first tokens; fewer for very wide matrices."""
    calibration: CalibrationSpec = CalibrationSpec()
    """For methods that need one."""


class PendingRun(Message):
    """A run and its missing units."""

    spec: RunSpec
    units: tuple[str, ...]


class EvaluateJob(JobSpec):
    """Compute the missing units of some runs, in order. Each unit arrives as a Partial; there is no Result.

    A run that fails ends with RunFailed and the next one begins, so that one unreachable data set does not cost a
    night. So does one that has ended three engines; the job itself fails only if no engine reaches a run.
    """

    kind: Literal["evaluate"] = "evaluate"
    runs: tuple[PendingRun, ...]
    stored: dict[str, float] = Field(default_factory=dict)
    """Usual seconds of units on this machine by `measurement_key` (`Reader.unit_seconds`), for the time left."""
    run_model_code: bool = False
    """Consent to run, in a sandbox, the programs that the model writes for tasks such as humaneval. It belongs to a job
    and to no spec, so that no file can give it."""
    task_code: dict[str, str] = Field(default_factory=dict)
    """Consent to run the code of task folders: the digest that the user allowed, by folder; likewise of no spec."""
    samples: bool = False
    """Send every document's own scores and responses too."""
    metrics: dict[str, str] = Field(default_factory=dict)
    """The metric that tables show, by task (`EvaluationSpec.metrics`); no number depends on it. A run fails before it
    computes anything if its task is known to lack the metric."""

    @property
    def first_model(self) -> ModelSource | None:
        return self.runs[0].spec.model if self.runs else None


Group = tuple[ModelSource, RotationSpec]


def group_of(run: PendingRun) -> Group:
    return run.spec.model, run.spec.rotation


def by_model(runs: Iterable[PendingRun]) -> dict[Group, list[PendingRun]]:
    """Return the runs of each rotated model, in their order, the models in the order of their first runs."""
    groups: dict[Group, list[PendingRun]] = {}
    for run in runs:
        groups.setdefault(group_of(run), []).append(run)
    return groups


class LatencyJob(JobSpec):
    """Time a sweep's products; each arrives as Measured. Result: SweepReport."""

    kind: Literal["latency"] = "latency"
    timed = True
    spec: LatencySpec
    stored: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Hashes of the stored points by `Environment.key`, which are not measured again."""


class DecodeJob(JobSpec):
    """Time a model's decoding, gated and dense; each point arrives as Measured. Result: SweepReport."""

    kind: Literal["decode"] = "decode"
    timed = True
    spec: DecodeSpec
    stored: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """As LatencyJob's."""


class GenerateJob(JobSpec):
    """Complete a prompt by the dense model, by gated ones, or both. Each token arrives as Token, each completion ends
    with CompletionFinished, by which it is stored; there is no Result."""

    kind: Literal["generate"] = "generate"
    interactive = True
    model: ModelSource
    prompt: str = Field(min_length=1)
    chat: bool = False
    """Put the prompt into the tokenizer's chat template as the user's message."""
    new_tokens: int = Field(default=64, ge=1, le=MOST_TOKENS)
    """Maximum tokens of each completion, its prefix included."""
    sampling: SamplingSpec = SamplingSpec()
    configurations: tuple[CompletionSpec, ...] = Field(min_length=1, max_length=16)
    """At most one dense one, which takes turns with the first gated one, token by token; other gated ones follow."""
    store: bool = True
    """Store the completions, except those that are stopped before LEAST_TOKENS."""

    def point(self, configuration: int) -> CompletionPoint:
        """Return the identity of a configuration's completion."""
        return CompletionPoint(
            model=self.model,
            prompt=self.prompt,
            chat=self.chat,
            new_tokens=self.new_tokens,
            sampling=self.sampling,
            configuration=self.configurations[configuration].model_copy(update={"prefix": ()}),
        )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(configuration.is_dense for configuration in self.configurations) > 1:
            raise ValueError("one dense completion is enough")
        return self


class ExportModelJob(JobSpec):
    """Write a run's gated model as a folder that transformers loads. Result: ExportRecord."""

    kind: Literal["export_model"] = "export_model"
    spec: RunSpec
    folder: str
    card: str = ""
    """Its model card, Markdown."""
    run: str = ""
    """Hash of the stored run that measured it."""


class ExportGgufJob(JobSpec):
    """Write a plain model, rotated or not, as a GGUF file by llama.cpp's converter. Result: GgufRecord."""

    kind: Literal["export_gguf"] = "export_gguf"
    model: ModelSource
    rotation: RotationSpec = NO_ROTATION
    file: str
    converter: str
    """Path of llama.cpp's script."""
    outtype: GgufType = "auto"
    text: str = "demo:heldout"
    """Text on which the file's perplexity is compared with the model's."""


Job = Annotated[
    InspectJob
    | RotateJob
    | CalibrateJob
    | AllocateJob
    | AllocateJointlyJob
    | CostJob
    | InspectGateJob
    | EvaluateJob
    | LatencyJob
    | DecodeJob
    | GenerateJob
    | ExportModelJob
    | ExportGgufJob,
    Field(discriminator="kind"),
]
