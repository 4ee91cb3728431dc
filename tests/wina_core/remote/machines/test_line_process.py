"""Connections whose ssh leaves a program behind that holds its streams, as for a jump host."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from wina_core.errors import WinaError
from wina_core.remote.machines import line_process, setup
from wina_core.remote.machines.line_process import LineProcess
from wina_core.remote.machines.ssh import ssh_command
from wina_core.specs.machine import Machine

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a shell script in the place of ssh")

LEFT_BEHIND = "sleep 3600 >/dev/null & echo $! >>$LEFT; echo 'Connection reset' >&2; exit 255"
"""It ends long after any test that does not wait for it."""
MACHINE = Machine(name="gpu", destination="gpu.example.org")


@pytest.fixture(autouse=True)
def left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that waited for one of the programs that were left."""
    (tmp_path / "ssh").write_text(f"#!/bin/sh\n{LEFT_BEHIND}\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("LEFT", str(tmp_path / "left"))
    monkeypatch.setattr(line_process, "_TAIL_SECONDS", 0.5)
    yield
    for number in (tmp_path / "left").read_text().split():
        os.kill(int(number), signal.SIGKILL)  # raises where it has ended


def test_a_question_and_set_up_end_with_ssh(tmp_path: Path) -> None:
    wheel = tmp_path / "wheel.whl"
    wheel.touch()
    command = ssh_command(MACHINE, "remote", "ask")
    with LineProcess(MACHINE, command) as process, pytest.raises(WinaError, match="connection was closed"):
        next(process.lines(1, 100))
    with pytest.raises(WinaError, match="connection was closed"):
        setup.set_up_machine(MACHINE, wheel=wheel)
