"""The end of an engine process: its cause in words, and the number of engines that one piece of work may cost.

SIGKILL, SIGTERM and crashes are treated alike: the work is tried again, since nobody can tell a user's `kill -9` from
the kernel's. They differ in the words, and before an engine has begun its work: one that was killed then says nothing
about the work, while one that crashed or exited would do so again.
"""

import signal
from pathlib import Path

from wina_core.errors import LOWER_MEMORY, says_no_memory
from wina_core.jobs import Failed

MOST_ENGINES = 3
"""Engines that a run, or a job that no engine reaches, may end."""
_SIGKILL = getattr(signal, "SIGKILL", 9)
_SIGABRT = signal.SIGABRT
_SIGBUS = getattr(signal, "SIGBUS", 7)
_CHANGED_FILE = "crashed because a weight file was changed or cut off while it was read, or its disk failed"


def was_killed(code: int) -> bool:
    return code in (-_SIGKILL, -signal.SIGTERM)


def memory_kills() -> int | None:
    """Return the number of processes that the kernel has killed for memory since it started; None where unknown."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:  # another system
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def describe_end(code: int, log: str, kills_before: int | None) -> str:
    """Return the cause of an engine's end as the predicate of "the engine".

    `log` is the tail of its log; `kills_before` the `memory_kills` when its present work began.
    """
    if was_killed(code):
        sure = code == -_SIGKILL and kills_before is not None and (memory_kills() or 0) > kills_before
        return f"was killed {'' if sure else 'from outside, perhaps '}because memory ran out"
    if code == -_SIGABRT and says_no_memory(log):
        return "stopped because memory ran out"
    if code == -_SIGBUS:  # a page of a mapped file cannot be read
        return _CHANGED_FILE
    if code < 0:
        return f"crashed with signal {-code} ({signal.strsignal(-code)})"
    return f"stopped with exit code {code}"


def describe_start(code: int, log: str) -> str:
    """Return the sentence on an engine that ended before it was ready; its log's last line names the cause."""
    if says_no_memory(log):
        return (
            "The engine could not start because memory ran out; close other programs, lower the number of engines or "
            "raise the memory limit (ulimit -v)."
        )
    cause = log.strip().rpartition("\n")[2] or f"exit code {code}; run the setup again."
    return f"The engine could not start: {cause}"


def describe_retry(failed: Failed, ended: int) -> str:
    cause = f"An engine {failed.engine_end}." if failed.engine_end else failed.error
    return f"{cause} Its run is tried again, in engine {ended + 1} of at most {MOST_ENGINES}."


def describe_failure(failed: Failed) -> str:
    """Return the sentence on a run that has ended MOST_ENGINES engines, the last one with this failure."""
    if not failed.engine_end:  # it reported a fault before
        return f"This run ended {MOST_ENGINES} engines; the last fault was: {failed.error}"
    if failed.engine_end == _CHANGED_FILE:
        advice = "copy the model again, then run it again"
    else:
        advice = LOWER_MEMORY if "memory" in failed.engine_end else "read the log for the cause, then run it again"
    return f"This run ended {MOST_ENGINES} engines, the last of which {failed.engine_end}; {advice}."
