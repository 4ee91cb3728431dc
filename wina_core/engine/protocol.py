"""The messages between a client and an engine: one JSON object per line, discriminated by `type`.

The wire is plain text, free of local objects, so that the same client can drive an engine over ssh.
"""

from collections.abc import Callable
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from wina_core.gate_records import GateRecord, GateTarget
from wina_core.generation_specs import MOST_TOKENS, AnswerSpec, SamplingSpec
from wina_core.latency_specs import DecodeSpec, LatencySpec
from wina_core.plan import SparsityPlan, UniformSparsity
from wina_core.records import (
    AllocationRecord,
    CalibrationRecord,
    CostRecord,
    DecodeRecord,
    Environment,
    EstimateRecord,
    LatencyRecord,
    ModelSummary,
    RotationReport,
    SweepReport,
    UnitRecord,
)
from wina_core.specs import (
    AllocatedSparsity,
    CalibrationSpec,
    MethodSpec,
    ModelSource,
    RotationMode,
    RotationSpec,
    RunSpec,
)


class Message(BaseModel):
    """Base of all messages."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


# ---- jobs: what an engine can be asked to do -------------------------------------------------------------------


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
    metrics: dict[str, str] = {}
    """Task: the metric that tables are to show (`EvaluationSpec.metrics`), on which no number depends. Runs with a task
    whose definition tells that it has no such metric fail before anything is computed."""


class EstimateJob(Message):
    """Time a few documents of every distinct unit. Result: EstimateRecord."""

    kind: Literal["estimate"] = "estimate"
    runs: tuple[PendingRun, ...]
    stored: dict[str, float] = {}
    """`measurement_key`: seconds that like units took (`Reader.unit_seconds`), and which are not timed again."""
    run_model_code: bool = False
    """As EvaluateJob's."""


class LatencyJob(Message):
    """Time a sweep's products; each arrives as Measured. Result: SweepReport."""

    kind: Literal["latency"] = "latency"
    spec: LatencySpec
    stored: dict[str, tuple[str, ...]] = {}
    """`Environment.key`: hashes of the points that are stored for it and not to be measured again."""


class DecodeJob(Message):
    """Time a model's decoding, gated and dense; each point arrives as Measured. Result: SweepReport."""

    kind: Literal["decode"] = "decode"
    spec: DecodeSpec
    stored: dict[str, tuple[str, ...]] = {}
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
    | DecodeJob | GenerateJob,
    Field(discriminator="kind"),
]


# ---- client -> engine --------------------------------------------------------------------------------------------


class Submit(Message):
    """Queue a job under an id of the client's choice, that of a job that has ended included."""

    type: Literal["submit"] = "submit"
    job_id: str
    job: Job
    ahead_of: tuple[str, ...] = ()
    """Jobs that this one is to go before, as far as they have something left to begin; at the end if there is none."""


class Move(Message):
    """Place a job that waits elsewhere in the queue; one that has begun goes on."""

    type: Literal["move"] = "move"
    job_id: str
    ahead_of: tuple[str, ...]
    """As Submit's."""


class Cancel(Message):
    """Ask a queued or running job to stop at the next batch."""

    type: Literal["cancel"] = "cancel"
    job_id: str


class Pause(Message):
    """Hold a job at the next batch, with all it has in memory, or keep a waiting one waiting."""

    type: Literal["pause"] = "pause"
    job_id: str


class Resume(Message):
    """Let a held job go on."""

    type: Literal["resume"] = "resume"
    job_id: str


class Shutdown(Message):
    """Cancel everything and exit."""

    type: Literal["shutdown"] = "shutdown"


Request = Annotated[Submit | Move | Cancel | Pause | Resume | Shutdown, Field(discriminator="type")]


# ---- engine -> client --------------------------------------------------------------------------------------------


class Ready(Message):
    """Sent once the engine can take jobs."""

    type: Literal["ready"] = "ready"
    pid: int
    environment: Environment


class Accepted(Message):
    """The job was queued or, when `started`, has begun."""

    type: Literal["accepted"] = "accepted"
    job_id: str
    started: bool = False


class Assigned(Message):
    """What one of several engines does from now on."""

    type: Literal["assigned"] = "assigned"
    engine: int
    """Its place among them, from 1."""
    hardware: str = ""
    """What it computes on, once it has told."""
    job: str | None = None
    """The job's id; None while it has nothing to do."""


class Held(Message):
    """The job is paused, or goes on."""

    type: Literal["held"] = "held"
    job_id: str
    held: bool


class Progress(Message):
    """How far a job is. `total` is None while unknown; `eta_seconds` is smoothed."""

    type: Literal["progress"] = "progress"
    job_id: str
    done: float
    total: float | None
    unit: str
    """What `done` counts: "requests", "tokens", "layers", ..."""
    eta_seconds: float | None = None
    metric: str = ""
    """What is being worked on, with the latest figure, for example "teal 50 %: demo_choice"."""


class RunStarted(Message):
    """An EvaluateJob went on to the run with this content hash."""

    type: Literal["run_started"] = "run_started"
    job_id: str
    run: str


class Partial(Message):
    """One finished unit of a run: to be committed the moment it arrives."""

    type: Literal["partial"] = "partial"
    job_id: str
    unit: UnitRecord


class Measured(Message):
    """One point of a sweep: to be committed the moment it arrives."""

    type: Literal["measured"] = "measured"
    job_id: str
    record: LatencyRecord | DecodeRecord


class Token(Message):
    """One token of an answer. Probabilities are the models' own, before temperature and top-p."""

    type: Literal["token"] = "token"
    job_id: str
    arm: int
    """Index into the job's arms."""
    id: int
    text: str
    """What it adds to the answer (`wina_core.generation.pieces`); empty for one that ends within a character."""
    log_probability: float
    """Of this token by the model that chose it, natural logarithm."""
    dense_log_probability: float | None = None
    """The same by the dense model after the same prefix; None for the dense answer."""
    divergence: float | None = None
    """KL(dense || gated) of the two next-token distributions that this token was chosen from, in nats: the dense model
    reads the prompt and what the gated one has answered so far, on the same weights with the gates switched off (on
    those that are not rotated where the rotation needs shortcuts). None for the dense answer."""
    read: int
    """Tokens that the pass behind it read: 1, but the prompt and what had `begun` for the first."""
    seconds: float
    """What this pass took, from the tokens to the logits."""
    dense_seconds: float | None = None
    """The same of the dense pass that it is compared with, right after it; None for the dense answer."""


class Answered(Message):
    """An answer has ended: at an `end` token, at its `length`, or because the job `stopped`."""

    type: Literal["answered"] = "answered"
    job_id: str
    arm: int
    end: Literal["end", "length", "stopped"]
    prompt_tokens: int
    sparsity: float | None = None
    """Dropped fraction of the plan's weights over the tokens read one by one, counted from the masks; None where there
    were none, and for the dense answer."""


class RunFinished(Message):
    """Every pending unit of this run has arrived."""

    type: Literal["run_finished"] = "run_finished"
    job_id: str
    run: str


class RunFailed(Message):
    """This run ended with an error, its earlier units stay valid, and the job goes on. Fields as in Failed."""

    type: Literal["run_failed"] = "run_failed"
    job_id: str
    run: str
    error: str
    detail: str = ""


ResultValue = (
    ModelSummary
    | RotationReport
    | CalibrationRecord
    | AllocationRecord
    | CostRecord
    | GateRecord
    | EstimateRecord
    | SweepReport
)


class Result(Message):
    """What a job returns whose work is not that of runs; Done follows."""

    type: Literal["result"] = "result"
    job_id: str
    value: ResultValue


class Log(Message):
    """A line for the log."""

    type: Literal["log"] = "log"
    level: Literal["debug", "info", "warning", "error"]
    text: str
    job_id: str | None = None


class Failed(Message):
    """The job ended with an error; no Done follows.

    `error` is one sentence; `detail` the traceback's or log's tail, if any.
    """

    type: Literal["failed"] = "failed"
    job_id: str
    error: str
    detail: str = ""
    run: str | None = None
    """The run that was being computed, if any."""


class Done(Message):
    """The job ended: as far as it could be, or `cancelled` before its end."""

    type: Literal["done"] = "done"
    job_id: str
    cancelled: bool = False


Event = Annotated[
    Ready
    | Accepted
    | Assigned
    | Held
    | Progress
    | RunStarted
    | Partial
    | Measured
    | Token
    | Answered
    | RunFinished
    | RunFailed
    | Result
    | Log
    | Failed
    | Done,
    Field(discriminator="type"),
]

Emit = Callable[[Event], None]
"""Where a job puts its events."""

REQUESTS: TypeAdapter[Request] = TypeAdapter(Request)
EVENTS: TypeAdapter[Event] = TypeAdapter(Event)


def encode(message: Message) -> str:
    """One line of JSON with its newline."""
    return message.model_dump_json() + "\n"
