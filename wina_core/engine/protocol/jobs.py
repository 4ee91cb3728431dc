"""What an engine can be asked to do."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from wina_core.engine.protocol.message import Message
from wina_core.records.gates import GateTarget
from wina_core.specs import (
    AllocatedSparsity,
    CalibrationSpec,
    MethodSpec,
    ModelSource,
    RotationMode,
    RotationSpec,
    RunSpec,
)
from wina_core.specs.generation import MOST_TOKENS, AnswerSpec, SamplingSpec
from wina_core.specs.latency import DecodeSpec, LatencySpec
from wina_core.specs.plans import SparsityPlan, UniformSparsity


class InspectJob(Message):
    """Load a model and describe it. Result: ModelSummary."""

    kind: Literal["inspect"] = "inspect"
    model: ModelSource


class RotateJob(Message):
    """Rotate a model, measure the rotation, optionally save the rotated model as a folder. Result: RotationReport."""

    kind: Literal["rotate"] = "rotate"
    model: ModelSource
    rotation: RotationSpec
    export_to: str | None = None


class CalibrateJob(Message):
    """Measure score quantiles and error curves. Result: CalibrationRecord."""

    kind: Literal["calibrate"] = "calibrate"
    model: ModelSource
    rotation: RotationSpec
    method: MethodSpec
    calibration: CalibrationSpec


class AllocateJob(Message):
    """Spread a budget over the model's cells. Stopped half way, it goes on from there. Result: AllocationRecord."""

    kind: Literal["allocate"] = "allocate"
    model: ModelSource
    rotation: RotationSpec
    method: MethodSpec
    plan: AllocatedSparsity
    calibration: CalibrationSpec = CalibrationSpec()
    """For a method that needs one even with top-k selection, by which the budget is spread."""


class CostJob(Message):
    """Count what a generated token costs, from the model's config alone: no weights are read. Result: CostRecord."""

    kind: Literal["cost"] = "cost"
    model: ModelSource
    method: MethodSpec
    plan: Annotated[UniformSparsity | SparsityPlan, Field(discriminator="kind")]
    context: int = Field(default=2048, ge=1)
    """Positions that the token attends to, itself included."""
    rotations: tuple[RotationMode, ...] | None = None
    """None: all that are exact for the model."""


class InspectGateJob(Message):
    """See what methods keep of one matrix's input on a prompt, the model running dense. Result: GateRecord."""

    kind: Literal["inspect_gate"] = "inspect_gate"
    model: ModelSource
    rotation: RotationSpec
    layer: int = Field(ge=0)
    projection: str
    prompt: str = Field(min_length=1)
    gates: tuple[GateTarget, ...] = Field(min_length=1)
    tokens: int = Field(default=64, ge=1, le=512)
    """At most so many of the prompt's first ones; fewer of very wide matrices."""
    calibration: CalibrationSpec = CalibrationSpec()
    """For methods that need one."""


class PendingRun(Message):
    """A run and those of its units that the store does not have yet."""

    spec: RunSpec
    units: tuple[str, ...]


class EvaluateJob(Message):
    """Compute the missing units of some runs, in order. Each unit arrives as a Partial; there is no Result.

    A run that fails ends with RunFailed and the next one begins, so that one unreachable data set does not cost a
    night; the job itself fails only where going on is pointless (the engine died, the accelerator is unusable).
    """

    kind: Literal["evaluate"] = "evaluate"
    runs: tuple[PendingRun, ...]
    samples: bool = False
    """Whether every document's own scores and answers are sent too."""
    run_model_code: bool = False
    """Consent to run, in a sandbox, the programs that the model writes for tasks such as humaneval. Given anew for
    every job and part of no spec, so that no file can give it."""
    metrics: dict[str, str] = Field(default_factory=dict)
    """Task: the metric that tables are to show (`EvaluationSpec.metrics`), on which no number depends. Runs with a task
    whose definition tells that it has no such metric fail before anything is computed."""


class EstimateJob(Message):
    """Time a few documents of every distinct unit. Result: EstimateRecord."""

    kind: Literal["estimate"] = "estimate"
    runs: tuple[PendingRun, ...]
    stored: dict[str, float] = Field(default_factory=dict)
    """`measurement_key`: seconds that like units took (`Reader.unit_seconds`), and which are not timed again."""
    run_model_code: bool = False
    """As EvaluateJob's."""


class LatencyJob(Message):
    """Time a sweep's products; each arrives as Measured. Result: SweepReport."""

    kind: Literal["latency"] = "latency"
    spec: LatencySpec
    stored: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """`Environment.key`: hashes of the points that are stored for it and not to be measured again."""


class DecodeJob(Message):
    """Time a model's decoding, gated and dense; each point arrives as Measured. Result: SweepReport."""

    kind: Literal["decode"] = "decode"
    spec: DecodeSpec
    stored: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """As LatencyJob's."""


class GenerateJob(Message):
    """Answer a prompt by the dense model, by gated ones, or both. Each token arrives as Token, each answer ends with
    Answered; there is no Result, and nothing is stored."""

    kind: Literal["generate"] = "generate"
    model: ModelSource
    prompt: str = Field(min_length=1)
    chat: bool = False
    """Whether the prompt is put into the tokenizer's chat template as the user's message."""
    new_tokens: int = Field(default=64, ge=1, le=MOST_TOKENS)
    """Most tokens of each answer, what has `begun` included."""
    sampling: SamplingSpec = SamplingSpec()
    arms: tuple[AnswerSpec, ...] = Field(min_length=1, max_length=16)
    """The dense one, of which there may be one, takes turns with the first gated one, token by token; other gated ones
    follow."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(arm.is_dense for arm in self.arms) > 1:
            raise ValueError("one dense answer is enough")
        return self


Job = Annotated[
    InspectJob
    | RotateJob
    | CalibrateJob
    | AllocateJob
    | CostJob
    | InspectGateJob
    | EvaluateJob
    | EstimateJob
    | LatencyJob
    | DecodeJob
    | GenerateJob,
    Field(discriminator="kind"),
]
