"""`wina machines` beside the window: its lines, its one sentence on failure, and its end with all its children."""

import sys

import psutil
import pytest
from wina_app.services.machine_command import MachineCommand

PROGRAM = """
import subprocess, sys
work = sys.argv[2]
print("Connect", file=sys.stderr, flush=True)
if work == "setup":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(child.pid, file=sys.stderr, flush=True)
    child.wait()
if work == "unset":
    sys.exit("wina: There is no machine.")
print("the report")
"""


@pytest.fixture
def command(qapp):  # noqa: ARG001 - signals need an application
    made = MachineCommand(command=[sys.executable, "-c", PROGRAM])
    yield made
    made.leave()


def test_a_command_ends_with_its_output_or_one_sentence(command, qtbot):
    lines = []
    command.line.connect(lines.append)
    with qtbot.waitSignal(command.succeeded) as ended:
        command.start("check", "gpu")
    assert (ended.args[0].strip(), lines) == ("the report", ["Connect"])
    with qtbot.waitSignal(command.failed) as ended:
        command.start("unset", "gpu")
    assert ended.args == ["There is no machine."]


def test_a_stopped_command_leaves_no_ssh(command, qtbot):
    lines = []
    command.line.connect(lines.append)
    command.start("setup", "gpu")
    qtbot.waitUntil(lambda: len(lines) == 2)
    with qtbot.waitSignal(command.stopped):
        command.stop()
    qtbot.waitUntil(lambda: not psutil.pid_exists(int(lines[1])))
    assert not command.runs
