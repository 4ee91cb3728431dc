"""Requests about array jobs, answered in this process for this computer and over ssh by another machine."""

from wina_core.errors import WinaError
from wina_core.jobs import EvaluateJob
from wina_core.remote.cluster.answers import answer
from wina_core.remote.cluster.requests import (
    ArrayAnswer,
    ArrayDone,
    ArrayLook,
    ArrayRequest,
    ArraySubmitted,
    LogTail,
    LookAtArray,
    SubmitArray,
    TailLog,
)
from wina_core.remote.engine.paths import to_remote
from wina_core.remote.machines.ask import Conversation
from wina_core.remote.machines.messages import MOST_LINE
from wina_core.remote.machines.registry import find_machine
from wina_core.specs.machine import LOCAL

_MOST_ANSWER = 2**28
"""Most bytes of an answer: a result with all its documents, as JSON in JSON."""
_PATIENCE_SECONDS = 180.0
"""Slurm's own programs may wait a minute for their controller."""
_ANSWERS: dict[type[ArrayRequest], type[ArrayAnswer]] = {
    SubmitArray: ArraySubmitted,
    LookAtArray: ArrayLook,
    TailLog: LogTail,
}
"""Kinds of answers other than ArrayDone."""


def ask(machine: str, request: ArrayRequest) -> ArrayAnswer:
    """Return the answer of a machine. Raises WinaError where it cannot be reached or refuses."""
    if machine == LOCAL:
        return answer(request)
    if isinstance(request, SubmitArray) and len(request.model_dump_json()) > MOST_LINE - 1000:
        raise WinaError(f"The study is too large to be submitted at once ({MOST_LINE // 2**20} MiB); split its file.")
    with Conversation(find_machine(machine)) as conversation:
        kind = _ANSWERS.get(type(request), ArrayDone)
        return conversation.ask(request.type, request, kind, _PATIENCE_SECONDS, _MOST_ANSWER)


def translated(element: EvaluateJob, machine: str) -> EvaluateJob:
    """Return an element with the paths of its machine. Raises WinaError as `to_remote`."""
    if machine == LOCAL:
        return element
    job = to_remote(element, find_machine(machine))
    assert isinstance(job, EvaluateJob)
    return job
