"""Execution of a program and of its tests in fresh processes that bubblewrap isolates; see the package.

The isolation is namespaces, read-only folders and a filter of system calls. The hub's metric code_eval runs every
program so; the package evaluate takes long to import, so it is imported only where programs may run.
"""

import errno
import json
import os
import platform
import secrets
import select
import shutil
import struct
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any, Literal

from wina_core.compute.hooks import attributes
from wina_core.errors import WinaError
from wina_core.files.own_command import is_bundle
from wina_core.studies.tasks.task_folder import MEMORY_BYTES, PROCESSOR_SECONDS, WALL_SECONDS

_CONFINED = Path(__file__).with_name("confined")
_START = f"import sys; sys.path.insert(0, {str(_CONFINED.parent)!r})\n"
_START += "from confined.start import main; del sys.path[0]; main()"
_MAX_REPORT_BYTES = 4096
"""Bytes read of a report."""
_TIME_LIMIT_STATUS = 128 + 24  # SIGXCPU, which Windows does not have
"""Exit status of bubblewrap for a program that has used its processor time."""


@dataclass(frozen=True)
class SandboxLimits:
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


def run_confined(program: str, tests: str = "", limits: SandboxLimits = SandboxLimits()) -> Outcome:
    """Run a program's text in one confined process and its tests in another, which gives the verdict.

    Without tests, a program passes that runs to its end; then the verdict rests on the program's own process.
    Raises WinaError, without running anything, if the system cannot confine it.
    """
    token = secrets.token_hex(16)
    with ExitStack() as pipes:
        common = {"limits": {"seconds": limits.seconds, "memory": limits.memory}, "packages": package_folders()}
        read_requests, write_requests = pipes.enter_context(_pipe())
        read_answers, write_answers = pipes.enter_context(_pipe())
        of_candidate, of_judge = (read_requests, write_answers), (read_answers, write_requests)
        candidate = {**common, "role": "candidate", "token": "", "text": program, "pipe": of_candidate}
        judge = {**common, "role": "judge", "token": token, "text": tests, "pipe": of_judge}
        ended = time.monotonic() + limits.wall_seconds
        with _confined(of_candidate) as candidates, _confined(of_judge) as judges:
            pipes.close()  # so that each process sees the other's end
            processes = candidates, judges
            for process in processes:
                _check_start(process, max(0.0, ended - time.monotonic()))
            _request(judges, judge)
            _request(candidates, candidate)
            report = _read(judges, _MAX_REPORT_BYTES, max(0.0, ended - time.monotonic()))
            if report is not None:  # the processes end by themselves, with the status of a limit
                for process in processes:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(max(0.0, ended - time.monotonic()))
    if _parsed(report, token).get("outcome") == "passed":
        return Outcome(True, "passed")
    out_of_time = report is None or any(process.returncode == _TIME_LIMIT_STATUS for process in processes)
    return Outcome(False, "timed out" if out_of_time else "failed")


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    """Yield (its end for reading, its end for writing), both closed in this process afterwards."""
    ends = os.pipe()
    try:
        yield ends
    finally:
        for descriptor in ends:
            os.close(descriptor)


def _check_start(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Wait for the first byte of a process; raise WinaError if bubblewrap cannot confine it."""
    first = _read(process, 1, seconds)
    if first is None:
        raise unavailable(f"bubblewrap does not start within {seconds:.0f} s")
    if not first:
        assert process.stderr is not None
        lines = process.stderr.read().decode(errors="replace").splitlines()
        raise unavailable(lines[-1] if lines else "bubblewrap ends at once")


def _request(process: subprocess.Popen[bytes], request: dict[str, Any]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:  # it may end before reading all; see its status
        pipe.write(json.dumps(request).encode())


def _read(process: subprocess.Popen[bytes], size: int, seconds: float) -> bytes | None:
    """Return what a process writes, at most `size` bytes; empty if it ends, or None after these seconds."""
    assert process.stdout is not None
    waiting = select.poll()
    waiting.register(process.stdout, select.POLLIN)
    return os.read(process.stdout.fileno(), size) if waiting.poll(seconds * 1000) else None


def _parsed(report: bytes | None, token: str) -> dict[str, str]:
    try:
        answer: dict[str, str] = json.loads(report or b"")
        return answer if answer["token"] == token else {}
    except (ValueError, KeyError, TypeError):
        return {}


_SYSTEM_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
_DEVICES = (os.devnull, "/dev/urandom")
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""All of the environment; NumPy must start no threads."""

_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""{machine: (its AUDIT_ARCH number, its column below)}."""
_REFUSED_CALLS: dict[str, tuple[int | None, int | None]] = {
    # Limits of time and memory are those of one process.
    "clone": (56, 220),
    "fork": (57, None),
    "vfork": (58, None),
    "clone3": (435, 435),
    # Memory that no limit counts.
    "memfd_create": (319, 279),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    # Not in a namespace, as the sockets of a virtual machine's host, or a large part of the kernel.
    "socket": (41, 198),
    "socketpair": (53, 199),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "setns": (308, 268),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
"""Numbers on x86-64 and aarch64 of the system calls that fail with EPERM."""
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
_NUMBER, _ARCHITECTURE = 0, 4
"""Offsets in struct seccomp_data."""
_X32 = 0x40000000
"""The first number of x86-64's second set of system calls, all of which are refused."""


@contextmanager
def _confined(descriptors: Iterable[int]) -> Iterator["subprocess.Popen[bytes]"]:
    """Yield a confined process that awaits its request, with pipes on all three streams, and end it.

    It has no network, no process beside it, an empty environment, and reads only Python, its packages, the system's
    libraries and `confined`. The kernel ends it when this thread ends. Packages are not on its `sys.path`.

    Raises:
        WinaError: if bubblewrap is not installed, or has no filter for this machine.
    """
    command = _command()
    # The filter fits into the pipe's buffer, so that it is written before anything reads it.
    filter_end, writes = os.pipe()
    with os.fdopen(writes, "wb") as pipe:
        pipe.write(seccomp_filter(platform.machine()))
    try:
        process = subprocess.Popen(
            [command[0], "--seccomp", str(filter_end), *command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_ONE_THREAD,
            start_new_session=True,
            pass_fds=[filter_end, *descriptors],
        )
    finally:
        os.close(filter_end)
    with process:
        try:
            yield process
        finally:
            process.kill()


def package_folders() -> list[str]:
    paths = sysconfig.get_paths()
    return list(dict.fromkeys((paths["purelib"], paths["platlib"])))


def unavailable(reason: str) -> WinaError:
    """Return the error for a system that cannot confine programs."""
    return WinaError(
        f"Programs that the model writes run only in a sandbox, which is not available here ({reason}); "
        "run this task on Linux with bubblewrap, on x86-64 or aarch64, or leave it out."
    )


def seccomp_filter(machine: str) -> bytes:
    """Return the filter in classic BPF, 8 bytes an instruction. Raises WinaError for other machines."""
    if machine not in _MACHINES:
        raise unavailable(f"its filter of system calls does not know {machine}")
    architecture, column = _MACHINES[machine]
    numbers = [call[column] for call in _REFUSED_CALLS.values() if call[column] is not None]
    # A process may call the kernel in the way of another architecture, where the numbers mean other calls.
    code = [_instruction(_LOAD, _ARCHITECTURE), _instruction(_EQUAL, architecture, 1), _instruction(_RETURN, _KILL)]
    code += [_instruction(_LOAD, _NUMBER), _instruction(_AT_LEAST, _X32, len(numbers) + 1)]
    # A jump skips the numbers after it and the return that allows.
    code += [_instruction(_EQUAL, number or 0, len(numbers) - index) for index, number in enumerate(numbers)]
    return b"".join([*code, _instruction(_RETURN, _ALLOW), _instruction(_RETURN, _REFUSE)])


def _instruction(code: int, value: int, jump: int = 0) -> bytes:
    return struct.pack("=HBBI", code, jump, 0, value)


def _command() -> list[str]:
    if is_bundle():
        raise unavailable("a bundle has no Python for them; install the workbench with pip")
    program = shutil.which("bwrap") if sys.platform == "linux" else None
    if sys.platform != "linux":
        raise unavailable(f"{platform.system() or sys.platform} has no bubblewrap")
    if program is None:
        raise unavailable("bubblewrap is not installed: apt install bubblewrap, or dnf or pacman -S")
    python, paths = str(Path(sys.executable).resolve()), sysconfig.get_paths()
    folders = [paths["stdlib"], paths["platstdlib"], str(Path(sys.base_prefix) / "lib"), *package_folders()]
    command = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for path in dict.fromkeys([*folders, *_SYSTEM_LIBRARIES, python, str(_CONFINED)]):
        command += ["--ro-bind-try", path, path]
    for path in _DEVICES:
        command += ["--dev-bind", path, path]
    return [*command, "--remount-ro", "/", "--chdir", "/", "--", python, "-I", "-S", "-c", _START]


_NAME = "code_eval"


class CodeEval:
    """The interface of `evaluate.load("code_eval")` that tasks such as humaneval use."""

    def compute(
        self,
        references: Sequence[str],
        predictions: Sequence[Sequence[str]],
        k: int | Sequence[int] = (1, 10, 100),
        **limits: Any,
    ) -> tuple[dict[str, float], dict[int, list[tuple[int, dict[str, Any]]]]]:
        """Run every candidate and its task's tests; return pass@k for each possible k, and outcomes by task.

        `references` holds each task's tests, `predictions` its candidate programs. `timeout` is in seconds of
        processor time; `num_workers` is ignored. Raises WinaError if programs cannot be confined.
        """
        confines = SandboxLimits(seconds=max(1, round(limits["timeout"]))) if "timeout" in limits else SandboxLimits()
        outcomes = [
            [run_confined(candidate, tests, confines) for candidate in candidates]
            for tests, candidates in zip(references, predictions, strict=True)
        ]
        counts = [(len(task), sum(outcome.passed for outcome in task)) for task in outcomes]
        estimates = {
            f"pass@{drawn}": sum(pass_at_k(n, passed, drawn) for n, passed in counts) / len(counts)
            for drawn in ([k] if isinstance(k, int) else k)
            if all(n >= drawn for n, _ in counts)
        }
        return estimates, {number: _labelled(number, task) for number, task in enumerate(outcomes)}


def pass_at_k(n: int, passed: int, k: int) -> float:
    """Estimate the chance that one of k candidates passes if `passed` of n do: 1 - C(n - passed, k) / C(n, k).

    Unbiased (Chen et al. 2021, "Evaluating Large Language Models Trained on Code", eq. 1).
    """
    return 1.0 - comb(n - passed, k) / comb(n, k)


@contextmanager
def sandboxed() -> Iterator[None]:
    """Make `evaluate.load("code_eval")` return this metric within the block, without a download."""
    import evaluate

    load: Callable[..., Any] = evaluate.load
    with attributes(evaluate, load=lambda path, *a, **kw: CodeEval() if path == _NAME else load(path, *a, **kw)):
        yield


def runs_in_sandbox(function: Any) -> bool:
    """Return whether the module of a task's metric function runs programs by this code_eval only."""
    import evaluate

    held = getattr(function, "__globals__", {}).values()
    ours = any(isinstance(value, CodeEval) for value in held)
    return ours and not any(isinstance(value, evaluate.EvaluationModule) for value in held)


def _labelled(task: int, outcomes: Sequence[Outcome]) -> list[tuple[int, dict[str, Any]]]:
    return [
        (number, {"task_id": task, "passed": outcome.passed, "result": outcome.result, "completion_id": number})
        for number, outcome in enumerate(outcomes)
    ]
