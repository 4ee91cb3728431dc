"""Connections whose ssh leaves a program behind that holds its streams, as for a jump host."""

import os
import threading
import time
from pathlib import Path

import pytest

from wina_core.engine.remote.link import Link
from wina_core.errors import WinaError
from wina_core.machines import line_process, setup
from wina_core.machines.line_process import LineProcess
from wina_core.machines.machine import Machine
from wina_core.machines.ssh import ssh_command

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a shell script in the place of ssh")

LEFT_BEHIND = "sleep 30 >/dev/null & echo 'Connection reset' >&2; exit 255"
MACHINE = Machine(name="gpu", destination="gpu.example.org")


@pytest.fixture(autouse=True)
def left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh").write_text(f"#!/bin/sh\n{LEFT_BEHIND}\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(line_process, "_TAIL_SECONDS", 0.5)


def test_a_question_and_set_up_end_with_ssh(tmp_path: Path) -> None:
    begun, wheel = time.monotonic(), tmp_path / "wheel.whl"
    wheel.touch()
    command = ssh_command(MACHINE, "remote", "ask")
    with LineProcess(MACHINE, command) as process, pytest.raises(WinaError, match="connection was closed"):
        next(process.lines(1, 100))
    with pytest.raises(WinaError, match="connection was closed"):
        setup.set_up_machine(MACHINE, wheel=wheel)
    assert time.monotonic() - begun < 15


def test_an_engines_connection_is_made_again() -> None:
    lost: list[str] = []
    script = f"read hello; echo '{{\"protocol\":1}}'; exec >/dev/null; {LEFT_BEHIND}"

    def on_lost(reason: str) -> None:
        lost.append(reason)
        if len(lost) == 2:
            link.close()

    link = Link(["sh", "-c", script], lambda _, said: said.strip(), lambda _: None, lambda _: None, on_lost)
    thread = threading.Thread(target=link.run, daemon=True)
    thread.start()
    thread.join(15)
    assert lost == ["Connection reset"] * 2
