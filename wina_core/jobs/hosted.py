"""Jobs of the window that no engine computes."""

from typing import Literal

from wina_core.jobs.message import Message
from wina_core.jobs.queued import ArrayJob
from wina_core.jobs.serving import ServeJob


class FetchJob(Message):
    """Fetch a small model."""

    kind: Literal["fetch"] = "fetch"
    model: str
    """Its name."""


class OtherProgramsJob(Message):
    """A job that another program on the same database computes."""

    kind: Literal["other"] = "other"
    computes: str
    """Kind of its job."""


HostedJob = ServeJob | FetchJob | ArrayJob | OtherProgramsJob
