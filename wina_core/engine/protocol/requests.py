"""What a client sends to an engine."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from wina_core.engine.protocol.jobs import Job
from wina_core.engine.protocol.message import Message


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
REQUESTS: TypeAdapter[Request] = TypeAdapter(Request)
