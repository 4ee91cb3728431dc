"""Running programs that a model wrote, each in a fresh process that cannot harm: no network, no files, no processes.

What confines them is in `confined`, which runs in that process. Where the system cannot give the
isolation, the program is not run.
"""

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
"""The program's whole environment: NumPy starts no threads, which it could not."""
_MOST_BYTES = 4096
"""Of an answer; a program that found the way to write more waits there for its time limit."""


@dataclass(frozen=True)
class Limits:
    """What one program may use."""

    seconds: int = 3
    """Processor time, the interpreter's start included; code_eval's own limit is 3 s of wall time."""
    wall_seconds: float = 15.0
    """Time that passes, for programs that wait; long, so that no verdict depends on how busy the machine is."""
    memory: int = 2**30
    """Bytes of address space."""


@dataclass(frozen=True)
class Outcome:
    """How a program ended."""

    passed: bool
    result: Literal["passed", "failed", "timed out"]
    """In code_eval's words; "failed" is any exception, SystemExit too, and any other end before the last line."""


def run_confined(program: str, limits: Limits = Limits()) -> Outcome:
    """Run a program's text to its end, confined. It has this Python's standard library and packages, UTF-8, an empty
    working folder, no input, no arguments, and its output goes nowhere.

    Raises WinaError when it cannot be confined; it was not run then.
    """
    if sys.platform != "linux":
        raise _cannot(f"{platform.system() or sys.platform} lacks what it is made of")
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
    """Run two programs whose outcomes are known; WinaError where programs cannot be confined or do not run."""
    for program, expected in (("assert sum(range(4)) == 6", True), ("assert False", False)):
        if run_confined(program).passed is not expected:
            raise _cannot("even a program of one line does not run in it")


def _ask(request: bytes, folder: str, seconds: float) -> tuple[bool, int, bytes]:
    """Whether the confined process had to be ended, its exit status, and what it said."""
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
                pass  # it ended before it read all; its status tells
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
    """Where this Python's standard library and its shared libraries are."""
    paths = sysconfig.get_paths()
    return [paths["stdlib"], paths["platstdlib"], str(Path(sys.base_prefix) / "lib")]


def _packages() -> list[str]:
    """Where its packages are."""
    paths = sysconfig.get_paths()
    return list(dict.fromkeys((paths["purelib"], paths["platlib"])))


def _cannot(why: str) -> WinaError:
    return WinaError(
        f"Programs that the model writes run only in a sandbox, which cannot be had here ({why}); "
        "run this task on Linux 5.13 or later with Landlock, on x86-64 or aarch64, or leave it out."
    )
