"""Requests about array jobs, answered in this process for this computer and over ssh by another machine."""

import subprocess
import threading
from contextlib import suppress

from pydantic import TypeAdapter, ValidationError

from wina_core.errors import WinaError, explain, printable
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
from wina_core.remote.paths import to_remote
from wina_core.remote.registry import find_machine
from wina_core.remote.ssh import explain_ssh, ssh_command
from wina_core.specs.machine import LOCAL, Machine

MAX_REQUEST = 16 * 2**20
"""Bytes of a request."""
_MAX_ANSWER = 2**28
"""Bytes of an answer: a result with all its documents, as JSON in JSON."""
_MAX_OTHER_TEXT = 2**20
"""Quotes, and characters outside of texts, of an answer: parsed, these take thirty times their size."""
_TAIL = 2**14
"""Bytes at the end of an output that may name the reason of a failure."""
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
    if len(request.model_dump_json()) > MAX_REQUEST:
        raise WinaError(f"The study is too large to be submitted at once ({MAX_REQUEST // 2**20} MiB); split its file.")
    return _ask_over_ssh(find_machine(machine), request)


def answer_json(text: bytes) -> ArrayAnswer:
    """Return the answer to a request of another computer. Raises WinaError for what is no request."""
    try:
        request: ArrayRequest = TypeAdapter(ArrayRequest).validate_json(text)
    except ValidationError as error:
        raise WinaError(
            f"The request is not understood ({explain(error)}); use the same version on both sides."
        ) from None
    return answer(request)


def _ask_over_ssh(machine: Machine, request: ArrayRequest) -> ArrayAnswer:
    """Return the answer of one connection, whose whole output is bounded."""
    kind = _ANSWERS.get(type(request), ArrayDone)
    mark = f'{{"type":"{kind.model_fields["type"].default}"'.encode()
    pipe = subprocess.PIPE
    command = ssh_command(machine, "cluster answer")
    try:
        process = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.STDOUT,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # Windows: no console beside the window
        )
    except OSError as error:
        raise WinaError(f"ssh cannot be started ({error.strerror}); install the OpenSSH client.") from error
    timer = threading.Timer(_PATIENCE_SECONDS, process.kill)
    timer.daemon = True  # an interrupted program does not wait for it
    timer.start()
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with suppress(OSError):  # it has ended, and its output says why
                process.stdin.write(request.model_dump_json().encode())
                process.stdin.close()
            output = process.stdout.read(_MAX_ANSWER + 1)
            process.stdout.close()  # ends one that writes without end
            code = process.wait()
        finally:
            timer.cancel()
            process.kill()  # only after Ctrl-C does it still run
    if len(output) > _MAX_ANSWER:
        raise WinaError(f"{machine.name} sent an answer of more than {_MAX_ANSWER // 2**20} MiB.")
    if code < 0:  # by the timer
        raise WinaError(f"{machine.name} did not answer in time; check the network and its load, then try again.")
    line = next((line for line in reversed(output.splitlines()) if line.startswith(mark)), b"")
    if code or not line:
        raise WinaError(explain_ssh(code, output[-_TAIL:].decode(errors="replace"), machine))
    if _is_intricate(line):
        raise WinaError(f"{machine.name} sent an answer that cannot be used (it has too many parts).")
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        cause = printable(explain(error)[:300]).rstrip(".")
        raise WinaError(f"{machine.name} sent an answer that cannot be used ({cause}).") from error


def _is_intricate(line: bytes) -> bool:
    """Return whether JSON has much else than long texts."""
    bare = line.replace(b"\\\\", b"").replace(b'\\"', b"")
    return bare.count(b'"') > _MAX_OTHER_TEXT or sum(map(len, bare.split(b'"')[::2])) > _MAX_OTHER_TEXT


def translated(element: EvaluateJob, machine: str) -> EvaluateJob:
    """Return an element with the paths of its machine. Raises WinaError as `to_remote`."""
    if machine == LOCAL:
        return element
    job, _ = to_remote(element, find_machine(machine))
    assert isinstance(job, EvaluateJob)
    return job
