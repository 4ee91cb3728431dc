"""Programs that a model wrote: their computations run, and their attempts to reach outside fail."""

import os
import socket
from pathlib import Path

import pytest

from wina_core.compute.sandbox.runner import Outcome, SandboxLimits, check_sandbox, run_confined
from wina_core.errors import WinaError

try:
    check_sandbox()
    unconfined = ""
except WinaError as error:
    unconfined = str(error)
confining = pytest.mark.skipif(bool(unconfined), reason=unconfined)

FAILED, PASSED, TIMED_OUT = Outcome(False, "failed"), Outcome(True, "passed"), Outcome(False, "timed out")
SHORT = SandboxLimits(seconds=1, wall_seconds=1.0)


@confining
@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        ("def add(a, b):\n    return a + b\n\nassert add(2, 3) == 5", PASSED),
        ("def add(a, b):\n    return a * b\n\nassert add(2, 3) == 5", FAILED),
        ("import collections, decimal, hashlib, heapq, itertools, math, random, re, typing", PASSED),
        ("import numpy\nassert numpy.arange(9.).reshape(3, 3) @ numpy.ones(3) is not None", PASSED),
        ("assert 'ü' == '\\u00fc'", PASSED),
        ("print('x' * 10**7)", PASSED),
        ("import os\nassert 'HOME' not in os.environ", PASSED),
        ("if __name__ == '__main__':\n    assert False", PASSED),
        ("this is no program", FAILED),
        ("input()", FAILED),
        ("import sys\nsys.exit(0)", FAILED),
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
@pytest.mark.parametrize(
    "program",
    [
        "held = bytearray(1 << 29)",
        "held = []\nwhile True:\n    held.append(bytearray(1 << 26))",
    ],
)
def test_memory_is_limited(program):
    assert run_confined(program, limits=SandboxLimits(memory=2**28)) == FAILED


@confining
@pytest.mark.parametrize(
    "attempt",
    [
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
    ],
)
def test_what_reaches_out_of_the_process_is_refused(attempt):
    attempt = attempt.replace("OUTSIDE", str(os.getpid()))
    program = f"import os, sys\ntry:\n    {attempt}\nexcept (OSError, RuntimeError, ValueError):\n    pass\n"
    assert run_confined(f"{program}else:\n    raise SystemExit('it was let')") == PASSED


@confining
def test_a_users_file_is_neither_read_nor_changed(tmp_path: Path):
    secret = tmp_path / "secret.txt"
    secret.write_text("mine", encoding="utf-8")
    for mode in ("r", "w", "a", "r+"):
        assert run_confined(f"open({str(secret)!r}, {mode!r})") == FAILED
    assert run_confined(f"import os\nos.truncate({str(secret)!r}, 0)") == FAILED
    assert run_confined(f"import os\nos.unlink({str(secret)!r})") == FAILED
    assert secret.read_text(encoding="utf-8") == "mine"
    assert run_confined(f"import os\nos.listdir({str(tmp_path)!r})") == FAILED


@confining
def test_no_connection_arrives():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        assert run_confined(f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)") == FAILED
        with pytest.raises(TimeoutError):
            server.accept()


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
