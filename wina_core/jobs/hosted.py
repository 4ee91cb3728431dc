"""Jobs of the window that no engine computes."""

from typing import ClassVar, Literal

from wina_core.jobs.message import Message
from wina_core.jobs.serving import ServeJob

RUNS_PER_ELEMENT = 8
"""Most runs of an element where the user does not choose."""


class FetchJob(Message):
    """Fetch a small model."""

    kind: Literal["fetch"] = "fetch"
    interactive: ClassVar[bool] = True
    model: str
    """Its name."""


class ArrayJob(Message):
    """Runs in a cluster's queue; no engine of this program gets this job."""

    kind: Literal["array"] = "array"
    interactive: ClassVar[bool] = False
    array: str
    """Its id, as `wina jobs` lists it."""
    job: str
    """Slurm's number."""


class ArrayReport(Message):
    """An array after a look at its queue."""

    job: ArrayJob
    title: str
    states: str
    """Elements by state, such as "2 running, 5 pending"; or the reason why Slurm does not answer."""
    done: int
    """Merged measurements."""
    total: int
    failures: tuple[str, ...] = ()
    """New errors of runs and elements."""
    log: str = ""
    """End of the log of an element that died since the last look."""
    ended: bool = False
    cancelled: bool = False


class OtherProgramsJob(Message):
    """A job that another program on the same database computes."""

    kind: Literal["other"] = "other"
    interactive: ClassVar[bool] = False
    computes: str
    """Kind of its job."""


HostedJob = ServeJob | FetchJob | ArrayJob | OtherProgramsJob
