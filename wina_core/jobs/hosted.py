"""Jobs of the window that no engine computes."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, TypeAdapter

from wina_core.jobs.job_specs import Message


class ServeJob(Message):
    """Serve a model to OpenAI's clients; no engine gets this job."""

    kind: Literal["serve"] = "serve"
    interactive: ClassVar[bool] = True
    folder: str
    port: int
    key_file: str = ""
    """File of the API key; empty for none."""


class Listening(Message):
    """The server accepts requests."""

    type: Literal["listening"] = "listening"
    address: str
    """Base URL for clients: http://127.0.0.1:8000/v1."""
    model: str
    """The one name that requests may give."""
    chat: bool
    """True if the tokenizer has a chat template."""


class RequestFinished(Message):
    """The end of a request."""

    type: Literal["finished"] = "finished"
    path: str
    status: int
    """HTTP status; 499 if the client went away before the answer was complete."""
    tokens: int = 0
    """Generated tokens."""
    seconds: float = 0.0
    """Time of generating them, prompt included, without waiting."""
    reason: str = ""
    """Reason of a refusal."""

    @property
    def rate(self) -> float | None:
        """Return tokens per second; None without tokens."""
        return self.tokens / self.seconds if self.tokens and self.seconds else None


ServerEvent = Listening | RequestFinished
SERVER_EVENTS: TypeAdapter[ServerEvent] = TypeAdapter(Annotated[ServerEvent, Field(discriminator="type")])
"""Parser of one line."""


class FetchJob(Message):
    """Fetch a small model."""

    kind: Literal["fetch"] = "fetch"
    interactive: ClassVar[bool] = True
    model: str
    """Its name."""


class OtherProgramsJob(Message):
    """A job that another program on the same database computes."""

    kind: Literal["other"] = "other"
    interactive: ClassVar[bool] = False
    computes: str
    """Kind of its job."""


HostedJob = ServeJob | FetchJob | OtherProgramsJob
