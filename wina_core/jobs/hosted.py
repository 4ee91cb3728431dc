"""Jobs of the window that no engine computes."""

from typing import Literal

from wina_core.jobs.message import Message
from wina_core.jobs.queued import ArrayJob
from wina_core.jobs.serving import ServeJob


class FetchJob(Message):
    """Copy a file or folder from another machine, or fetch a small model."""

    kind: Literal["fetch"] = "fetch"
    location: str
    """NAME:/path, or the name of a small model."""
    folder: str = ""
    """The folder of this computer to copy it into; a small model has its own."""


HostedJob = ServeJob | FetchJob | ArrayJob
