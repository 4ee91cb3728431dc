"""The messages between a client and an engine: one JSON object per line, discriminated by `type`.

The wire is plain text, free of local objects, so that the same client can drive an engine over ssh.
"""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

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


Job = Annotated[
    InspectJob | RotateJob | CalibrateJob | AllocateJob | CostJob | EvaluateJob | EstimateJob | LatencyJob | DecodeJob,
    Field(discriminator="kind"),
]


# ---- client -> engine --------------------------------------------------------------------------------------------


class Submit(Message):
    """Queue a job under an id of the client's choice."""

    type: Literal["submit"] = "submit"
    job_id: str
    job: Job


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


Request = Annotated[Submit | Cancel | Pause | Resume | Shutdown, Field(discriminator="type")]


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
    ModelSummary | RotationReport | CalibrationRecord | AllocationRecord | CostRecord | EstimateRecord | SweepReport
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
    | Held
    | Progress
    | RunStarted
    | Partial
    | Measured
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
