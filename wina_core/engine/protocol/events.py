"""What an engine sends to its client."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from wina_core.engine.protocol.message import Message
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
from wina_core.records.gates import GateRecord


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
    """What it adds to the answer (`compute.generation.pieces`); empty for one that ends within a character."""
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

EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
