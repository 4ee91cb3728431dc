"""Requests about an array job to the machine that reaches the queue, and its answers: data alone."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from wina_core.jobs import EvaluateJob
from wina_core.jobs.message import Message
from wina_core.remote.cluster.slurm.settings import SlurmSettings

MOST_ELEMENTS = 1000
"""Elements of an array, below the usual limit of clusters (MaxArraySize 1001)."""

ArrayId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]
Index = Annotated[int, Field(ge=0, lt=MOST_ELEMENTS)]
Text = Annotated[str, StringConstraints(max_length=2**16)]

ElementState = Literal["pending", "running", "requeued", "failed", "timed out", "cancelled", "done", "unknown"]
"""`requeued` waits after it ran; `unknown` is no longer in Slurm's records."""
ENDED: frozenset[ElementState] = frozenset({"failed", "timed out", "cancelled", "done", "unknown"})


class SubmitArray(Message):
    """Submit an array job with these elements; ArraySubmitted answers."""

    type: Literal["submit_array"] = "submit_array"
    array: ArrayId
    elements: tuple[EvaluateJob, ...] = Field(min_length=1, max_length=MOST_ELEMENTS)
    settings: SlurmSettings


class LookAtArray(Message):
    """Return the states of all elements, and results from these byte offsets of their files on; ArrayLook answers."""

    type: Literal["look_at_array"] = "look_at_array"
    array: ArrayId
    offsets: dict[Index, Annotated[int, Field(ge=0)]] = Field(default_factory=dict, max_length=MOST_ELEMENTS)


class CancelArray(Message):
    """Cancel what waits and runs; ArrayDone answers."""

    type: Literal["cancel_array"] = "cancel_array"
    array: ArrayId


class RequeueElements(Message):
    """Queue ended elements again, which continue where they were; ArrayDone answers, with those that were refused."""

    type: Literal["requeue_elements"] = "requeue_elements"
    array: ArrayId
    elements: tuple[Index, ...] = Field(max_length=MOST_ELEMENTS)


class TailLog(Message):
    """Return the end of an element's log; LogTail answers."""

    type: Literal["tail_log"] = "tail_log"
    array: ArrayId
    element: Index


class RemoveArray(Message):
    """Remove the files of an array whose results are stored; ArrayDone answers."""

    type: Literal["remove_array"] = "remove_array"
    array: ArrayId


class ArraySubmitted(Message):
    """The array is in the queue."""

    type: Literal["array_submitted"] = "array_submitted"
    job: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,20}$")]
    """Slurm's number."""


class ElementStatus(Message):
    """State of an element, with Slurm's reason for waiting."""

    state: ElementState
    reason: Annotated[str, StringConstraints(max_length=300)] = ""


class Lines(Message):
    """Whole lines of a results file, up to the offset `end`."""

    text: str
    end: int = Field(ge=0)
    fault: Text = ""
    """The reason for which the file cannot be read on."""


class ArrayLook(Message):
    """States of an array's elements, and new results of some: ask again while there are any."""

    type: Literal["array_look"] = "array_look"
    states: dict[Index, ElementStatus] = Field(max_length=MOST_ELEMENTS)
    lines: dict[Index, Lines] = Field(default_factory=dict, max_length=MOST_ELEMENTS)


class LogTail(Message):
    """End of a log."""

    type: Literal["log_tail"] = "log_tail"
    text: Text


class ArrayDone(Message):
    """The request is done."""

    type: Literal["array_done"] = "array_done"
    refused: dict[Index, Text] = Field(default_factory=dict, max_length=MOST_ELEMENTS)
    """Reasons by element."""


ArrayRequest = SubmitArray | LookAtArray | CancelArray | RequeueElements | TailLog | RemoveArray
ArrayAnswer = ArraySubmitted | ArrayLook | LogTail | ArrayDone
