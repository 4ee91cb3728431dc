"""Honest programs in the forms of humaneval and mbpp pass their tests across the two processes; hostile ones do not."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.trust.sandboxed import escaped, forged
from tests.wina_core.compute.sandbox.honest import HONEST
from tests.wina_core.compute.sandbox.test_sandbox import FAILED, PASSED, TIMED_OUT, confining
from wina_core.compute.sandbox import SandboxLimits, run_confined

pytestmark = confining


@pytest.mark.parametrize("form", HONEST)
def test_an_honest_program_passes(form):
    assert run_confined(*HONEST[form]) == PASSED


@pytest.mark.parametrize("wrong", ["near = lambda *arguments: 7", "assert False"])
def test_a_wrong_one_fails(wrong):
    program, tests = HONEST["one function, checked"]
    assert run_confined(f"{program}\n{wrong}", tests) == FAILED


HOSTILE = [
    *("claim on every descriptor", "walk the collector's objects", "leave in a call", "a class for math", "own all"),
    *("equal to all", "lying number", "lying distance", "announce other names", "reply before the request"),
]


def test_hostile_programs_neither_escape_nor_pass():
    """The whole list is `python -m tests.trust.sandboxed`."""
    assert escaped(["tcp", "read a user's file", "fork", "signal the runner", "descriptors of the runner"]) == []
    assert forged(HOSTILE) == []


def test_a_program_that_keeps_the_judge_waiting_is_ended():
    program = "import time\ndef wait():\n    time.sleep(60)"
    assert run_confined(program, "wait()", SandboxLimits(wall_seconds=0.7)) == TIMED_OUT
    assert run_confined("def wait():\n    while True: pass", "wait()", SandboxLimits(seconds=1)) == TIMED_OUT


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


def test_no_descriptor_stays_open():
    before = len(os.listdir("/proc/self/fd"))
    run_confined("pass")
    assert len(os.listdir("/proc/self/fd")) == before
