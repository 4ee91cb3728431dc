"""Lines between a link and a keeper arrive once and in order, whatever becomes of the connection."""

import os
import platform
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wina_core.remote.engine.fake_machine import HERE, ROOT, wait_until
from wina_core.errors import WinaError
from wina_core.remote.engine import link as linking
from wina_core.remote.engine.frames import Frame, Welcome
from wina_core.remote.engine.link import Link

SESSION = "test"


@pytest.fixture
def folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder of a session whose engine is an echo."""
    monkeypatch.setattr(linking, "RETRY_SECONDS", (0.0,))
    paths = os.pathsep.join(map(str, (HERE / "fake_site", ROOT)))
    environment = os.environ | {"PYTHONPATH": paths, "FAKE_ENGINE": str(HERE / "fake_echo.py")}
    command = [sys.executable, "-P", "-m", "wina_core.remote.engine.keeper", SESSION, "0", "1"]
    with subprocess.Popen(command, env=environment) as keeper:
        found = home / "data" / "engines" / f"{SESSION}@{platform.node()}"
        wait_until((found / "socket").exists)
        yield found
        keeper.kill()


class Connected:
    """A link, and what came over it."""

    def __init__(self, folder: Path, limits: list[str]) -> None:
        file = folder.parent / "limits"
        file.write_text("".join(f"{each}\n" for each in limits))
        self.welcomes: list[Welcome] = []
        self.frames: list[Frame] = []
        relay = [sys.executable, "-S", "-E", str(HERE / "fake_relay.py"), str(folder / "socket"), str(file)]
        self.link = Link(relay, lambda _, said: said, self.welcomes.append, self._take, lambda _: None)
        self._thread = threading.Thread(target=self.link.run, daemon=True)
        self._thread.start()

    def _take(self, frame: Frame) -> None:
        self.frames.append(frame)
        if frame.kind == "exit":
            self.link.finish(frame.n, 5.0)
            self.link.close()

    @property
    def lines(self) -> list[str]:
        return [frame.text for frame in self.frames if frame.kind == "event"]

    def end(self) -> None:
        self._thread.join(120)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("seed", [1, 2])
def test_each_line_arrives_once_and_in_order_over_random_cuts(seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    cuts = [f"{chance.randint(90, 3000)} {chance.randint(60, 6000)}" for _ in range(15)]
    connected = Connected(folder, ["150 300", *cuts])
    sent = [f"{number} {'x' * chance.choice((1, 30, 700))}" for number in range(60)]
    for line in (*sent, "end"):
        connected.link.send(line)
    connected.end()
    assert connected.lines == [f"{place} {line}" for line in (*sent, "end") for place in ("first", "second")]
    assert (connected.frames[-1].kind, connected.frames[-1].text) == ("exit", "7")
    assert not (folder / "events").exists()  # all of it was delivered


def test_a_newer_client_takes_over_what_is_left(folder: Path) -> None:
    old = Connected(folder, [])
    old.link.send("1")
    wait_until(lambda: len(old.lines) == 2)
    old.link.close()
    old.end()
    new = Connected(folder, [])
    new.link.send("end")
    new.end()
    before = new.welcomes[0].before
    assert [frame.text for frame in new.frames if frame.n > before][:-1] == ["first end", "second end"]
    assert before == old.frames[-1].n


def test_a_newer_connection_replaces_an_older_one(folder: Path) -> None:
    old = Connected(folder, [])
    wait_until(lambda: old.welcomes)
    old.link._closed.set()  # it does not come back
    new = Connected(folder, [])
    old.end()
    new.link.send("end")
    new.end()
    assert new.lines == ["first end", "second end"]


def test_a_line_out_of_order_ends_the_link() -> None:
    lines = [Welcome().model_dump_json(), Frame(kind="event", n=2, text="").model_dump_json()]
    script = f"import sys; print(*{lines!r}, sep=chr(10), flush=True); sys.stdin.read()"
    link = Link([sys.executable, "-S", "-c", script], lambda _, said: said, lambda _: None, lambda _: None, print)
    with pytest.raises(WinaError, match="out of order"):
        link.run()
