"""A machine behind a stand-in for ssh, with an engine without torch."""

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from tests.wina_core.engine.engine_events import PATIENCE, Events
from wina_core.remote.machine_client import MachineClient
from wina_core.remote.registry import save_machine
from wina_core.specs.machine import Machine

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[3]


def install_fake_ssh(folder: Path) -> None:
    """Write the program `ssh` into a folder, which the caller puts on the PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "ssh"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{HERE / "fake_ssh.py"}" "$@"\n')
    program.chmod(0o755)


class FakeMachine:
    """A machine of this name, its home folder, and what runs there."""

    def __init__(self, folder: Path, name: str = "away", engine: Path = HERE / "fake_remote_engine.py") -> None:
        self.name, self.home, self._engine = name, folder / name, str(engine)
        self.home.mkdir(parents=True)
        self._limits = folder / "limits" / name
        self._limits.parent.mkdir(exist_ok=True)
        self.machine = Machine(
            host=name,
            command=f"env WINA_HOME={self.home} PYTHONPATH={ROOT} {sys.executable} -P {engine}",
            folders={"/models": "/there/models"},
        )
        save_machine(self.machine)

    def cut(self, limits: Iterable[str]) -> None:
        """Limit the next connections: bytes towards the machine and back, or "down"."""
        self._limits.write_text("".join(f"{each}\n" for each in limits))

    def pace(self, seconds: float) -> None:
        """Have evaluations wait before each measurement."""
        (self.home / "pace").write_text(str(seconds))

    @property
    def computed(self) -> list[str]:
        """The measurements that its engines have made, in order."""
        file = self.home / "computed"
        return file.read_text().splitlines() if file.exists() else []

    def processes(self) -> list[psutil.Process]:
        """Return the engines there."""
        found = []
        for process in psutil.process_iter():
            try:
                if self._engine in process.cmdline() and process.environ().get("WINA_HOME") == str(self.home):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def end(self) -> None:
        """Kill what runs there."""
        for process in self.processes():
            process.kill()


def connect(machine: Machine, events: Events) -> MachineClient:
    """Return a client of an engine on a machine."""
    return MachineClient(events, machine)


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
