"""Requests of a client: those that an engine takes, and those that only the client's queue takes."""

from typing import Annotated, Literal, get_args

from pydantic import ConfigDict, Field, TypeAdapter

from wina_core.jobs.job_specs import Job
from wina_core.jobs.message import Message

Priority = Literal["first", "high", "normal", "low"]
PRIORITIES: tuple[Priority, ...] = get_args(Priority)


class Submit(Message):
    """Queue a job under an id of the client's choice; the id of a job that has ended may be used again."""

    type: Literal["submit"] = "submit"
    job_id: str
    job: Job
    priority: Priority | None = None
    """Read by the client's queue alone; None for the usual one of this kind of job."""
    machines: tuple[str, ...] = ()
    """Read by the client's queue alone: machines whose engines may compute it, "local" among them for this computer's;
    empty for this computer's alone."""
    title: str = ""
    """Shown in lists of jobs."""


class Move(Message):
    """Place a waiting job right before another one. It takes the priority of its new neighbours."""

    type: Literal["move"] = "move"
    job_id: str
    before: str | None
    """The other job's id; None for the end of the queue."""


class Prioritize(Message):
    """Place a waiting job behind all others of a priority."""

    type: Literal["prioritize"] = "prioritize"
    job_id: str
    priority: Priority


class Cancel(Message):
    """Drop a waiting job, or stop a running one at its next batch."""

    type: Literal["cancel"] = "cancel"
    job_id: str


class Pause(Message):
    """Hold a running job at its next batch, with all it has in memory, or keep a waiting one waiting."""

    type: Literal["pause"] = "pause"
    job_id: str


class Resume(Message):
    """Let a held job continue."""

    type: Literal["resume"] = "resume"
    job_id: str


class Release(Message):
    """End a running evaluation or sweep after its current measurement, to make room for another job.

    Its rest is handed out later.
    """

    type: Literal["release"] = "release"
    job_id: str


class Shutdown(Message):
    """Cancel everything and exit."""

    type: Literal["shutdown"] = "shutdown"


EngineRequest = Submit | Cancel | Pause | Resume | Release | Shutdown
"""A request that is sent to an engine."""
Request = Submit | Cancel | Pause | Resume | Shutdown | Move | Prioritize
"""A request to the client, which holds the queue."""
REQUESTS: TypeAdapter[EngineRequest] = TypeAdapter(
    Annotated[EngineRequest, Field(discriminator="type")], config=ConfigDict(defer_build=True)
)
