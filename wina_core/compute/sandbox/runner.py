"""Execution of a program and of its tests in fresh processes that `confined` isolates; see the package."""

import json
import os
import secrets
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wina_core.compute.sandbox.bubblewrap import confined_python, package_folders, unavailable
from wina_core.compute.sandbox.confined.names import helpers
from wina_core.studies.tasks.code_risk import MEMORY_BYTES, PROCESSOR_SECONDS, WALL_SECONDS

_CONFINED = Path(__file__).with_name("confined")
_START = f"import sys; sys.path.insert(0, {str(_CONFINED.parent)!r})\n"
_START += "from confined.start import main; del sys.path[0]; main()"
_MOST_BYTES = 4096
"""Bytes read of a report."""
_TIME_LIMIT_STATUS = 128 + 24  # SIGXCPU, which Windows does not have
"""Exit status of bubblewrap for a program that has used its processor time."""


@dataclass(frozen=True)
class Limits:
    """Resources of one program."""

    seconds: int = PROCESSOR_SECONDS
    """Processor time of each process, including the interpreter's start; code_eval's own limit is 3 s of wall time."""
    wall_seconds: float = WALL_SECONDS
    """Wall time of both; long, so that no verdict depends on the load of the machine."""
    memory: int = MEMORY_BYTES
    """Bytes of address space of each process."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program."""

    passed: bool
    result: Literal["passed", "failed", "timed out"]
    """In code_eval's words; "failed" is any exception, including SystemExit, and any other end before the last test."""


def run_confined(program: str, tests: str = "", limits: Limits = Limits()) -> Outcome:
    """Run a program's text in one confined process and its tests in another, which gives the verdict.

    Without tests, a program passes that runs to its end; then the verdict rests on the program's own process.
    Raises WinaError, without running anything, if the system cannot confine it.
    """
    token = secrets.token_hex(16)
    with ExitStack() as pipes:
        common = {"limits": {"seconds": limits.seconds, "memory": limits.memory}, "packages": package_folders()}
        needed, prompt = _helpers(tests, program)
        candidates, ends = [], []
        for text in [program, prompt] if needed else [program]:
            asked, asks = pipes.enter_context(_pipe())
            hears, answers = pipes.enter_context(_pipe())
            candidates.append({**common, "role": "candidate", "token": "", "text": text, "pipes": [(asked, answers)]})
            ends.append((hears, asks))
        judge = {**common, "role": "judge", "token": token, "text": tests, "helpers": sorted(needed), "pipes": ends}
        ended = time.monotonic() + limits.wall_seconds
        with ExitStack() as started:
            runs = [started.enter_context(_started(candidate)) for candidate in candidates]
            judges = started.enter_context(_started(judge))
            pipes.close()  # so that each process sees the other's end
            for process in (*runs, judges):
                _check_start(process, max(0.0, ended - time.monotonic()))
            _request(judges, judge)
            for process, candidate in zip(runs, candidates, strict=True):
                _request(process, candidate)
            report = _report(judges, max(0.0, ended - time.monotonic()))
            if report is not None:  # the processes end by themselves, with the status of a limit
                for process in (*runs, judges):
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(max(0.0, ended - time.monotonic()))
    if _parsed(report, token).get("outcome") == "passed":
        return Outcome(True, "passed")
    out_of_time = report is None or any(process.returncode == _TIME_LIMIT_STATUS for process in (*runs, judges))
    return Outcome(False, "timed out" if out_of_time else "failed")


def _helpers(tests: str, program: str) -> tuple[set[str], str]:
    """Return the helpers of `names.helpers`; none for tests that are no Python, which fail in the judge."""
    try:
        return helpers(tests, program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(), ""


def check_sandbox() -> None:
    """Run two programs with known outcomes; raise WinaError if they cannot be confined or do not run."""
    for tests, expected in (("assert double(3) == 6", True), ("assert double(3) == 5", False)):
        if run_confined("def double(x):\n    return x + x", tests).passed is not expected:
            raise unavailable("a program of two lines fails in it")


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    """Yield (its end for reading, its end for writing), both closed in this process afterwards."""
    ends = os.pipe()
    try:
        yield ends
    finally:
        for each in ends:
            os.close(each)


def _started(request: dict[str, Any]) -> AbstractContextManager["subprocess.Popen[bytes]"]:
    descriptors = [end for pipe in request["pipes"] for end in pipe]
    return confined_python(_START, readable=[str(_CONFINED)], descriptors=descriptors)


def _check_start(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Wait for the first byte of a process; raise WinaError if bubblewrap cannot confine it."""
    assert process.stdout is not None
    assert process.stderr is not None
    waiting = select.poll()
    waiting.register(process.stdout, select.POLLIN)
    if not waiting.poll(seconds * 1000):
        raise unavailable(f"bubblewrap does not start within {seconds:.0f} s")
    if not os.read(process.stdout.fileno(), 1):
        lines = process.stderr.read().decode(errors="replace").splitlines()
        raise unavailable(lines[-1] if lines else "bubblewrap ends at once")


def _request(process: subprocess.Popen[bytes], request: dict[str, Any]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:  # it may end before reading all; see its status
        pipe.write(json.dumps(request).encode())


def _report(process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
    """Return the process's report, empty if it ends without one, or None after these seconds."""
    assert process.stdout is not None
    waiting = select.poll()
    waiting.register(process.stdout, select.POLLIN)
    return os.read(process.stdout.fileno(), _MOST_BYTES) if waiting.poll(seconds * 1000) else None


def _parsed(report: bytes | None, token: str) -> dict[str, str]:
    try:
        answer: dict[str, str] = json.loads(report or b"")
        return answer if answer["token"] == token else {}
    except (ValueError, KeyError, TypeError):
        return {}
