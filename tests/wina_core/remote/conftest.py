"""A machine with an engine without torch, in the test's own folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wina_core.engine.engine_events import Events
from tests.wina_core.remote.fake_machine import FakeMachine, connect, install_fake_ssh
from wina_core.remote.machine_client import MachineClient


@pytest.fixture
def machine(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMachine]:
    install_fake_ssh(home / "bin")
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SSH_LIMITS", str(tmp_path / "machines" / "limits"))
    made = FakeMachine(tmp_path / "machines")
    yield made
    made.end()


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def client(machine: FakeMachine, events: Events) -> Iterator[MachineClient]:
    made = connect(machine.machine, events)
    yield made
    made.stop()
