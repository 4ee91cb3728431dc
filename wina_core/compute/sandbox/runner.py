"""Execution of a program and of its tests in fresh processes that `confined` isolates; see the package."""

import json
import os
import platform
import secrets
import select
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wina_core.compute.sandbox.confined.names import helpers
from wina_core.errors import WinaError
from wina_core.files.own_command import is_bundle
from wina_core.studies.tasks.code_risk import MEMORY_BYTES, PROCESSOR_SECONDS, WALL_SECONDS

_CONFINED = Path(__file__).with_name("confined")
_START = "import sys; sys.path.insert(0, {!r}); from confined.start import main; del sys.path[0]; main()"
_SYSTEM_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
_DEVICES = (os.devnull, "/dev/urandom")
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""The whole environment of both processes; NumPy must start no threads."""
_MOST_BYTES = 4096
"""Bytes read of a report."""


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
    if is_bundle():
        raise _cannot("a bundle has no Python for them; install the workbench with pip")
    if sys.platform != "linux":
        raise _cannot(f"{platform.system() or sys.platform} has no Landlock")
    token = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="wina-", ignore_cleanup_errors=True) as folder, ExitStack() as pipes:
        canary = Path(folder) / "canary"
        canary.write_text("out of reach", encoding="utf-8")
        common = {
            "parent": os.getpid(),
            "limits": {"seconds": limits.seconds, "memory": limits.memory},
            "readable": [*_python_folders(), *_packages(), *_SYSTEM_LIBRARIES, *_DEVICES],
            "packages": _packages(),
            "canary": str(canary),
        }
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
            runs = [started.enter_context(_started(candidate, folder)) for candidate in candidates]
            judges = started.enter_context(_started(judge, folder))
            pipes.close()  # so that each process sees the other's end
            _request(judges, judge)
            for process, candidate in zip(runs, candidates, strict=True):
                _request(process, candidate)
            said = _report(judges, max(0.0, ended - time.monotonic()))
            refused = [_report(process, 0.0) for process in runs]
    verdict = _parsed(said, token)
    for answer in (*(_parsed(each, "") for each in refused), verdict):
        if answer.get("outcome") == "refused":
            raise _cannot(answer["reason"])
    if verdict.get("outcome") == "passed":
        return Outcome(True, "passed")
    out_of_time = said is None or any(process.returncode == -signal.SIGXCPU for process in (*runs, judges))
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
            raise _cannot("a program of two lines fails in it")


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    """Yield (its end for reading, its end for writing), both closed in this process afterwards."""
    ends = os.pipe()
    try:
        yield ends
    finally:
        for each in ends:
            os.close(each)


@contextmanager
def _started(request: dict[str, Any], folder: str) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that waits for its request; it is ended afterwards."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _START.format(str(_CONFINED.parent))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=_ONE_THREAD,
        start_new_session=True,
        pass_fds=[end for pipe in request["pipes"] for end in pipe],
    ) as process:
        try:
            yield process
        finally:
            process.kill()
            process.wait()


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


def _python_folders() -> list[str]:
    paths = sysconfig.get_paths()
    return [paths["stdlib"], paths["platstdlib"], str(Path(sys.base_prefix) / "lib")]


def _packages() -> list[str]:
    paths = sysconfig.get_paths()
    return list(dict.fromkeys((paths["purelib"], paths["platlib"])))


def _cannot(why: str) -> WinaError:
    return WinaError(
        f"Programs that the model writes run only in a sandbox, which is not available here ({why}); "
        "run this task on Linux 5.13 or later with Landlock, on x86-64 or aarch64, or leave it out."
    )
