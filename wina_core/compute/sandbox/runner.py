"""Execution of a program in a fresh process that `confined` isolates; see the package for what it may do."""

import json
import os
import platform
import secrets
import signal
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wina_core.errors import WinaError

_CONFINED = Path(__file__).with_name("confined.py")
_SYSTEM_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
_DEVICES = (os.devnull, "/dev/urandom")
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""The program's whole environment; NumPy must start no threads."""
_MOST_BYTES = 4096
"""Bytes read of an answer; a program that writes more blocks until its time limit."""


@dataclass(frozen=True)
class Limits:
    """Resources of one program."""

    seconds: int = 3
    """Processor time, including the interpreter's start; code_eval's own limit is 3 s of wall time."""
    wall_seconds: float = 15.0
    """Wall time; long, so that no verdict depends on the load of the machine."""
    memory: int = 2**30
    """Bytes of address space."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program."""

    passed: bool
    result: Literal["passed", "failed", "timed out"]
    """In code_eval's words; "failed" is any exception, including SystemExit, and any other end before the last line."""


def run_confined(program: str, limits: Limits = Limits()) -> Outcome:
    """Run a program's text in the sandbox, without input, arguments or output.

    Raises WinaError, without running it, if the system cannot confine it.
    """
    if sys.platform != "linux":
        raise _cannot(f"{platform.system() or sys.platform} has no Landlock")
    token = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="wina-", ignore_cleanup_errors=True) as folder:
        canary = Path(folder) / "canary"
        canary.write_text("out of reach", encoding="utf-8")
        request = {
            "program": program,
            "token": token,
            "limits": {"seconds": limits.seconds, "memory": limits.memory},
            "readable": [*_python_folders(), *_packages(), *_SYSTEM_LIBRARIES, *_DEVICES],
            "packages": _packages(),
            "canary": str(canary),
        }
        timed_out, status, said = _ask(json.dumps(request).encode(), folder, limits.wall_seconds)
    try:
        answer = json.loads(said)
        answer = answer if answer["token"] == token else {}
    except (ValueError, KeyError, TypeError):
        answer = {}
    match answer.get("outcome"):
        case "refused":
            raise _cannot(answer["reason"])
        case "passed":
            return Outcome(True, "passed")
        case "failed":
            return Outcome(False, "failed")
    return Outcome(False, "timed out" if timed_out or status == -signal.SIGXCPU else "failed")


def check_sandbox() -> None:
    """Run two programs with known outcomes; raise WinaError if they cannot be confined or do not run."""
    for program, expected in (("assert sum(range(4)) == 6", True), ("assert False", False)):
        if run_confined(program).passed is not expected:
            raise _cannot("a program of one line fails in it")


def _ask(request: bytes, folder: str, seconds: float) -> tuple[bool, int, bytes]:
    """Return (whether the confined process timed out, its exit status, its output)."""
    command = [sys.executable, "-I", "-S", "-B", str(_CONFINED)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=_ONE_THREAD,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            try:
                with process.stdin as pipe:
                    pipe.write(request)
            except BrokenPipeError:
                pass  # it ended before reading all; see its status
            try:
                process.wait(seconds)
                timed_out = False
            except subprocess.TimeoutExpired:
                timed_out = True
        finally:
            process.kill()
            process.wait()
        return timed_out, process.returncode, process.stdout.read(_MOST_BYTES)


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
