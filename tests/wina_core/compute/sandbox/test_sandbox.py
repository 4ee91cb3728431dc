"""Programs that a model wrote: their computations run, and their attempts to reach outside fail."""

import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.trust.sandboxed import escaped, forged
from tests.wina_core.compute.sandbox.honest import HONEST
from wina_core.compute.sandbox.runner import Outcome, SandboxLimits, run_confined
from wina_core.errors import WinaError

try:
    run_confined("pass")
    unconfined = ""
except WinaError as error:
    unconfined = str(error)
confining = pytest.mark.skipif(bool(unconfined), reason=unconfined)

FAILED, PASSED, TIMED_OUT = Outcome(False, "failed"), Outcome(True, "passed"), Outcome(False, "timed out")
SHORT = SandboxLimits(seconds=1, wall_seconds=1.0)
WHOLE = """\
import collections, decimal, hashlib, heapq, itertools, math, os, random, re, typing
import numpy
assert numpy.arange(9.).reshape(3, 3) @ numpy.ones(3) is not None
assert 'ü' == '\\u00fc'
print('x' * 10**7)
assert 'HOME' not in os.environ
def add(a, b):
    return a + b
assert add(2, 3) == 5
if __name__ == '__main__':
    assert False
"""


@confining
@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        (WHOLE, PASSED),
        ("def add(a, b):\n    return a * b\n\nassert add(2, 3) == 5", FAILED),
        ("this is no program", FAILED),
        ("input()", FAILED),
        ("import os\nos._exit(0)", FAILED),
        ("import json, os\njson.dumps = os.write = os._exit = None\nassert False", FAILED),
        ("def deeper():\n    deeper()\ndeeper()", FAILED),
        ("import ctypes\nctypes.string_at(0)", FAILED),
    ],
)
def test_a_program_passes_when_it_comes_to_its_end(program, outcome):
    assert run_confined(program) == outcome


@confining
@pytest.mark.parametrize("program", ["while True:\n    pass", "import time\ntime.sleep(60)"])
def test_programs_that_do_not_end_are_ended(program):
    assert run_confined(program, limits=SHORT) == TIMED_OUT


@confining
def test_memory_is_limited():
    program = "held = []\nwhile True:\n    held.append(bytearray(1 << 26))"
    assert run_confined(program, limits=SandboxLimits(memory=2**28)) == FAILED


ATTEMPTS = [
    "os.fork()",
    "os.posix_spawn('/bin/true', ['true'], {})",
    "os.execv('/bin/true', ['true'])",
    "__import__('threading').Thread(target=print).start()",
    "os.kill(OUTSIDE, 0)",
    "__import__('resource').setrlimit(__import__('resource').RLIMIT_CPU, (60, 60))",
    "__import__('fcntl').fcntl(0, __import__('fcntl').F_SETOWN, OUTSIDE)",
    "open('own', 'w')",
    "os.mkdir('own')",
    "os.listdir('/proc')",
    "os.mkdir('/dev/own')",
    "os.chmod(sys.executable, 0o777)",
    "os.memfd_create('own')",
    "open('/proc/self/environ').read()",
    "open('/etc/passwd').read()",
    "__import__('socket').socket(__import__('socket').AF_UNIX)",
    "__import__('socket').getaddrinfo('localhost', 80)",
    *(f"open(SECRET, {mode!r})" for mode in ("r", "w", "a", "r+")),
    "os.truncate(SECRET, 0)",
    "os.unlink(SECRET)",
    "os.listdir(os.path.dirname(SECRET))",
    "__import__('socket').create_connection(('127.0.0.1', PORT), 1)",
]


@confining
def test_what_reaches_out_of_the_process_is_refused(tmp_path: Path):
    secret = tmp_path / "secret.txt"
    secret.write_text("mine", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        names = {"OUTSIDE": os.getpid(), "SECRET": str(secret), "PORT": server.getsockname()[1]}
        tries = (
            f"try:\n    {attempt}\nexcept (OSError, RuntimeError, ValueError):\n    pass\n"
            f"else:\n    raise SystemExit({attempt!r})\n"
            for attempt in ATTEMPTS
        )
        lines = ["import os, sys\n", *(f"{name} = {value!r}\n" for name, value in names.items()), *tries]
        assert run_confined("".join(lines)) == PASSED
        with pytest.raises(TimeoutError):
            server.accept()
    assert secret.read_text(encoding="utf-8") == "mine"


@confining
def test_a_program_that_finds_the_channel_cannot_flood_it_or_pass_by_it():
    template = "import os\nfor fd in range(3, 64):\n    try:\n        {}\n    except OSError: pass\n"
    flood = template.format("while True: os.write(fd, b'x' * 4096)")
    assert run_confined(flood, limits=SHORT).passed is False
    claim = template.format("""os.write(fd, b'{"token": "", "outcome": "passed"}')""")
    assert run_confined(f"{claim}os._exit(0)") == FAILED


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("sys.platform", "darwin", "has no bubblewrap"),
        ("sys.frozen", True, "a bundle has no Python"),
        ("shutil.which", lambda _: None, "apt install bubblewrap"),
        ("platform.machine", lambda: "riscv64", "does not know riscv64"),
    ],
)
def test_where_it_cannot_be_confined_nothing_is_run(monkeypatch, tmp_path: Path, name, value, reason):
    started = tmp_path / "started"
    monkeypatch.setattr("shutil.which", lambda program: f"/usr/bin/{program}")
    monkeypatch.setattr(name, value, raising=False)
    with pytest.raises(WinaError, match=rf"only in a sandbox, which is not available here .*{reason}.*leave it out\.$"):
        run_confined(f"open({str(started)!r}, 'w')")
    assert not started.exists()


@confining
def test_where_bubblewrap_fails_nothing_is_run(monkeypatch, tmp_path: Path):
    """As in a container whose kernel refuses namespaces."""
    failing = tmp_path / "bwrap"
    failing.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(WinaError, match=r"not available here \(bwrap: No permissions to create new namespace\)"):
        run_confined("pass")


# ---- the verdict, across two processes -------------------------------------------------------------------------------


@confining
@pytest.mark.parametrize("form", HONEST)
def test_an_honest_program_passes(form):
    assert run_confined(*HONEST[form]) == PASSED


@confining
@pytest.mark.parametrize("wrong", ["near = lambda *arguments: 7", "assert False"])
def test_a_wrong_one_fails(wrong):
    program, tests = HONEST["one function, checked"]
    assert run_confined(f"{program}\n{wrong}", tests) == FAILED


HOSTILE = [
    *("claim on every descriptor", "walk the collector's objects", "leave in a call", "a class for math", "own all"),
    *("equal to all", "lying number", "lying distance", "announce other names", "reply before the request"),
]


@confining
def test_hostile_programs_neither_escape_nor_pass():
    """The whole list is `python -m tests.trust.sandboxed`."""
    assert escaped(["tcp", "read a user's file", "fork", "signal the runner", "descriptors of the runner"]) == []
    assert forged(HOSTILE) == []


@confining
def test_a_program_that_keeps_the_judge_waiting_is_ended():
    program = "import time\ndef wait():\n    time.sleep(60)"
    assert run_confined(program, "wait()", SandboxLimits(wall_seconds=3.0)) == TIMED_OUT
    assert run_confined("def wait():\n    while True: pass", "wait()", SandboxLimits(seconds=1)) == TIMED_OUT


@confining
def test_both_processes_end_with_the_one_that_started_them():
    runner = os.fork()
    if not runner:
        with suppress(BaseException):
            run_confined("import time\ntime.sleep(600)", "", SandboxLimits(wall_seconds=600))
        os._exit(0)
    try:
        processes = _descendants(runner, confined=2)
    finally:
        os.kill(runner, signal.SIGKILL)
        os.waitpid(runner, 0)
    _, alive = psutil.wait_procs(processes, timeout=120)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


def _descendants(process: int, confined: int) -> list[psutil.Process]:
    """Return the processes below one, once this number of them runs Python under the filter of system calls."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        processes = psutil.Process(process).children(recursive=True)
        if sum(_is_confined_python(process) for process in processes) == confined:
            return processes
        time.sleep(0.02)
    raise AssertionError("no confined process was started")


def _is_confined_python(process: psutil.Process) -> bool:
    try:
        return "python" in process.name() and "\nSeccomp:\t2\n" in Path(f"/proc/{process.pid}/status").read_text()
    except (OSError, psutil.Error):  # it has ended
        return False


@confining
def test_no_descriptor_stays_open():
    before = len(os.listdir("/proc/self/fd"))
    run_confined("pass")
    assert len(os.listdir("/proc/self/fd")) == before
