"""A spool keeps every frame until it is acknowledged, over torn lines and full disks."""

import errno
import os
from pathlib import Path

import pytest

from wina_core.remote.engine import spool as spools
from wina_core.remote.engine.frames import Frame, parse
from wina_core.remote.engine.spool import Spool


def texts(spool: Spool) -> list[str]:
    return [parse(Frame, spool.read(n)).text for n in range(spool.first, spool.last + 1)]


def filled(path: Path) -> Spool:
    spool = Spool(path)
    spool.add("log", "of an earlier one")
    spool.take_over("mine")
    for text in ("a", "b", "c"):
        spool.add("event", text)
    return spool


def test_another_keeper_finds_the_frames_and_their_bridge(tmp_path: Path) -> None:
    filled(tmp_path / "events")
    found = Spool(tmp_path / "events")
    assert (found.client, found.before, found.last, found.ended) == ("mine", 1, 4, False)
    assert texts(found) == ["of an earlier one", "a", "b", "c"]
    found.acknowledge(3)
    found.add("exit", "0")
    assert (texts(found), found.ended) == (["c", "0"], True)


TORN = b'{"kind":"event","n":5,"te'
OVERWRITTEN = b"\0" * 40 + b'\n{"kind":"event","n":5,"text":"old"}\n'


@pytest.mark.parametrize("damage", [TORN, OVERWRITTEN])
def test_a_torn_end_is_dropped(damage: bytes, tmp_path: Path) -> None:
    filled(tmp_path / "events")
    with (tmp_path / "events").open("ab") as file:
        file.write(damage)
    found = Spool(tmp_path / "events")
    found.add("event", "d")
    assert texts(Spool(tmp_path / "events"))[1:] == ["a", "b", "c", "d"]


def test_the_file_is_emptied_once_all_is_acknowledged(tmp_path: Path) -> None:
    spool = filled(tmp_path / "events")
    spool.acknowledge(4)
    assert (tmp_path / "events").stat().st_size < 100
    found = Spool(tmp_path / "events")
    assert (found.client, found.last) == ("mine", 4)


def test_a_full_disk_delays_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "FULL_DISK_SECONDS", 0.0)
    write, refusals = os.pwrite, iter([3, 0, 10])

    def half(file: int, data: bytes, offset: int) -> int:
        if (space := next(refusals, None)) is None:
            return write(file, data, offset)
        write(file, data[:space], offset)
        raise OSError(errno.ENOSPC, "no space")

    spool = filled(tmp_path / "events")
    monkeypatch.setattr(os, "pwrite", half)
    spool.add("event", "d")
    assert texts(Spool(tmp_path / "events"))[1:] == ["a", "b", "c", "d"]


def test_frames_that_a_power_failure_took_are_not_numbered_again(tmp_path: Path) -> None:
    spool = filled(tmp_path / "events")
    spool.acknowledge(9)  # more than it has: the bridge does
    spool.add("exit", "-9")
    assert spool.last == 10
