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


HostedJob = ServeJob | FetchJob | ArrayJob
