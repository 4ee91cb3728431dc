"""Limits of time and memory for rendering an untrusted template, of a task or of a chat.

A sandboxed template runs no code, but loops, repetition and regular expressions can take forever. No check of its text
finds all of them, so the operating system counts: processor time by a timer signal, where there is one and the main
thread renders, as in an engine and in a command; memory by the limit on address space on Linux.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from wina_core.errors import WinaError

if sys.platform == "linux":
    import resource

SECONDS = 5.0
"""Processor time for one template on one document; honest ones take milliseconds."""
BYTES = 512 * 2**20
"""Memory beyond that of the process."""
MOST_ADDED = 2**20
"""Characters that a chat template adds to its messages."""
_AGAIN = 0.5
"""Seconds until the signal comes again, if Python had to ignore the exception."""
_STATM = "/proc/self/statm"


class _Expired(BaseException):
    """The end of the time; no template and no library catches it."""


@contextmanager
def limited(subject: str) -> Iterator[None]:
    """Raise a WinaError about `subject` if the block takes more time or memory than the limits."""
    try:
        with _memory(), _time():  # the time ends first, so that no signal comes before the memory is free again
            yield
    except _Expired:
        reason = f"{SECONDS:g} seconds of processor time"
    except MemoryError:
        reason = f"{BYTES >> 20} MiB of memory"
    else:
        return
    raise WinaError(f"{subject} takes more than {reason} to render; correct the template.")


def render_chat(render: Callable[[], str], characters: int, instead: str) -> str:
    """Return messages of so many characters within a chat template, as `render` makes it.

    Transformers renders it in a sandbox; it comes with the model, and its faults are of any kind. Raises WinaError for
    them, with what to do `instead`, and for a template that takes or adds too much.
    """
    try:
        with limited("The chat template"):
            text = render()
    except WinaError as error:
        raise WinaError(f"{str(error).partition(';')[0]}; {instead}.") from error
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise WinaError(f"The chat template refuses this prompt ({reason}); {instead}.") from error
    if len(text) > characters + MOST_ADDED:
        raise WinaError(f"The chat template adds more than {MOST_ADDED:,} characters; {instead}.")
    return text


@contextmanager
def _time() -> Iterator[None]:
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPROF, _expire)
    try:
        try:
            signal.setitimer(signal.ITIMER_PROF, SECONDS, _AGAIN)
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    finally:  # also where the signal came before the line above
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _expire(_signal: int, _frame: FrameType | None) -> None:
    raise _Expired


@contextmanager
def _memory() -> Iterator[None]:
    if sys.platform != "linux":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open(_STATM, "rb", buffering=0) as file:
        most = int(file.read(200).split()[0]) * resource.getpagesize() + BYTES
    for limit in (soft, hard):
        most = most if limit == resource.RLIM_INFINITY else min(most, limit)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
