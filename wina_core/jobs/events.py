"""Requests and events: those of an engine, and those of the client's queue alone."""

from collections.abc import Callable
from typing import Annotated, Literal, get_args

from pydantic import ConfigDict, Field, TypeAdapter

from wina_core.jobs.job_specs import Job, Message
from wina_core.records import (
    AllocationRecord,
    CalibrationRecord,
    CostRecord,
    DecodeRecord,
    Environment,
    ExportRecord,
    GgufRecord,
    JointRecord,
    LatencyRecord,
    ModelSummary,
    RefinementStep,
    RotationReport,
    SweepReport,
    UnitRecord,
)
from wina_core.records.completions import CompletionEnd, CompletionToken
from wina_core.records.gates import GateRecord
from wina_core.specs.machine import LOCAL

Priority = Literal["first", "high", "normal", "low"]
PRIORITIES: tuple[Priority, ...] = get_args(Priority)


class JobMessage(Message):
    """Base of all messages about one job."""

    job_id: str


class Submit(JobMessage):
    """Queue a job under an id of the client's choice; the id of a job that has ended may be used again."""

    type: Literal["submit"] = "submit"
    job: Job
    priority: Priority | None = None
    """Read by the client's queue alone; None for the usual one of this kind of job."""
    machines: tuple[str, ...] = ()
    """Read by the client's queue alone: machines whose engines may compute it, "local" among them for this computer's;
    empty for this computer's alone."""
    title: str = ""
    """Shown in lists of jobs."""


class Move(JobMessage):
    """Place a waiting job right before another one. It takes the priority of its new neighbours."""

    type: Literal["move"] = "move"
    before: str | None
    """The other job's id; None for the end of the queue."""


class Prioritize(JobMessage):
    """Place a waiting job behind all others of a priority."""

    type: Literal["prioritize"] = "prioritize"
    priority: Priority


class Cancel(JobMessage):
    """Drop a waiting job, or stop a running one at its next batch."""

    type: Literal["cancel"] = "cancel"


class Pause(JobMessage):
    """Hold a running job at its next batch, with all it has in memory, or keep a waiting one waiting."""

    type: Literal["pause"] = "pause"


class Resume(JobMessage):
    """Let a held job continue."""

    type: Literal["resume"] = "resume"


class Shutdown(Message):
    """Cancel everything and exit."""

    type: Literal["shutdown"] = "shutdown"


EngineRequest = Submit | Cancel | Pause | Resume | Shutdown
"""A request that is sent to an engine."""
Request = Submit | Cancel | Pause | Resume | Shutdown | Move | Prioritize
"""A request to the client, which holds the queue."""
# Built at the first use, here and for EVENTS: all messages of all jobs would delay the opening of the window.
REQUESTS: TypeAdapter[EngineRequest] = TypeAdapter(
    Annotated[EngineRequest, Field(discriminator="type")], config=ConfigDict(defer_build=True)
)


class Ready(Message):
    """Sent once the engine can take jobs."""

    type: Literal["ready"] = "ready"
    pid: int
    environment: Environment
    timing: tuple[Environment, ...] = ()
    """Environments of timings on its devices, that of "auto" first."""
    notice: str = ""
    """Sentences on missing C++ kernels and the remedy; empty if nothing is missing."""


class Queued(JobMessage):
    """The place of a job in the client's queue, sent when it is submitted and whenever it is moved."""

    type: Literal["queued"] = "queued"
    priority: Priority
    before: str | None = None
    """The next job's id; None at the end of the queue."""
    reason: str = ""
    """The cause of waiting as a short clause, where it is no job ahead in the queue."""


class Started(JobMessage):
    """The job has begun."""

    type: Literal["started"] = "started"


class Assigned(Message):
    """The work of one of several engines from now on."""

    type: Literal["assigned"] = "assigned"
    engine: int
    """Its place among them, from 1."""
    light: bool = False
    """True for the one beside the others that computes only what a user waits for."""
    machine: str = LOCAL
    """Name of the machine that it runs on."""
    hardware: str = ""
    """Name of its processor or accelerator; empty until the engine is ready."""
    job: str | None = None
    """The job's id; None while it is idle."""


class Held(JobMessage):
    """The job is paused, or continues."""

    type: Literal["held"] = "held"
    held: bool
    released: bool = False
    """True once its engine works for the queue: the measurement in flight is computed again after the pause."""


class Progress(JobMessage):
    """Progress of a job. `total` is None while unknown; `eta_seconds` is smoothed. It covers an evaluation's missing
    measurements, all points of a sweep, and of any other job the stage and the later products of known duration."""

    type: Literal["progress"] = "progress"
    done: float
    total: float | None
    unit: str
    """Unit of `done`: "requests", "tokens", "layers", ..."""
    eta_seconds: float | None = None
    metric: str = ""
    """Current work with its latest figure, for example "teal 50 %: demo_choice"."""
    stage: str = ""
    """Name of the stage (`jobs.progress.Stage`) that `done` and `total` belong to."""

    @property
    def label(self) -> str:
        return ": ".join(filter(None, (self.stage, self.metric)))


class Refined(JobMessage):
    """One step of a rotation's refinement, to be drawn while it runs; the RotationReport has them all."""

    type: Literal["refined"] = "refined"
    step: RefinementStep


class RunStarted(JobMessage):
    """An EvaluateJob has begun the run with this content hash."""

    type: Literal["run_started"] = "run_started"
    run: str
    environment: Environment | None = None
    """Environment that computes it, set by the client's queue; None for that of the last Ready."""


class Partial(JobMessage):
    """One finished unit of a run: to be committed the moment it arrives."""

    type: Literal["partial"] = "partial"
    unit: UnitRecord
    rotation: RotationReport | None = None
    """The rotation that `auto` has chosen for the run's model, with the first unit of such a model; None else."""


class Measured(JobMessage):
    """One point of a sweep: to be committed the moment it arrives."""

    type: Literal["measured"] = "measured"
    record: LatencyRecord | DecodeRecord


class Token(CompletionToken, JobMessage):
    """One token of a completion, as it comes."""

    type: Literal["token"] = "token"
    configuration: int
    """Index into the job's configurations."""


class CompletionFinished(JobMessage):
    """A completion has ended: to be committed if it has tokens."""

    type: Literal["completion_finished"] = "completion_finished"
    configuration: int
    end: CompletionEnd
    prompt_tokens: int
    sparsity: float | None = None
    """Dropped fraction of the plan's weights over the tokens read one by one, counted from the masks; None without
    such tokens and for the dense completion."""
    tokens: tuple[CompletionToken, ...] = ()
    """All of the completion's, its prefix included; none where it is not to be stored."""
    environment: Environment | None = None
    """As RunStarted's."""


class RunFinished(JobMessage):
    """Every pending unit of this run has arrived."""

    type: Literal["run_finished"] = "run_finished"
    run: str


class RunFailed(JobMessage):
    """This run ended with an error, its earlier units stay valid, and the job continues. Fields as in Failed."""

    type: Literal["run_failed"] = "run_failed"
    run: str
    error: str
    detail: str = ""


ResultValue = (
    ModelSummary
    | RotationReport
    | CalibrationRecord
    | AllocationRecord
    | JointRecord
    | CostRecord
    | GateRecord
    | SweepReport
    | ExportRecord
    | GgufRecord
)


class Result(JobMessage):
    """The return value of a job without runs; Done follows."""

    type: Literal["result"] = "result"
    value: ResultValue


class Log(Message):
    """A line of the log."""

    type: Literal["log"] = "log"
    level: Literal["debug", "info", "warning", "error"]
    text: str
    job_id: str | None = None


class Failed(JobMessage):
    """The job ended with an error; no Done follows.

    `error` is one sentence; `detail` the traceback's or log's tail, if any.
    """

    type: Literal["failed"] = "failed"
    error: str
    detail: str = ""
    run: str | None = None
    """The run that was being computed, if any."""
    engine_end: str = ""
    """The cause of the engine's end as the predicate of "the engine", set by its client; empty if it lives."""
    not_begun: bool = False
    """True if the engine was lost before it began the job, whose fault that is not: another engine may compute it."""


class Done(JobMessage):
    """The job ended: as far as it could be, or `cancelled` before its end."""

    type: Literal["done"] = "done"
    cancelled: bool = False


Event = Annotated[
    Ready
    | Queued
    | Started
    | Assigned
    | Held
    | Progress
    | Refined
    | RunStarted
    | Partial
    | Measured
    | Token
    | CompletionFinished
    | RunFinished
    | RunFailed
    | Result
    | Log
    | Failed
    | Done,
    Field(discriminator="type"),
]

Emit = Callable[[Event], None]
"""The receiver of a job's events."""

EVENTS: TypeAdapter[Event] = TypeAdapter(Event, config=ConfigDict(defer_build=True))
