"""A few of the cuts of `python -m tests.trust.remote`, and of the engines of `python -m tests.trust.hostile_engine`."""

import os
import sys
from pathlib import Path

import pytest

from tests.trust import hostile_engine, remote
from wina_core.engine.client import client, part_end

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="engines are kept on Linux and macOS")


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo the changes of the environment."""
    for name in ("WINA_HOME", "PATH"):
        monkeypatch.setenv(name, os.environ.get(name, ""))


def test_a_study_over_ssh_has_the_local_rows_over_cut_connections(tmp_path: Path) -> None:
    report = remote.run(cuts=3, rounds=0, seed=2, folder=tmp_path)
    assert sum(report.cuts.values()) == 3
    assert report.faults == 0, report


def test_hostile_engines_fail_their_own_jobs_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_end, "MOST_ENGINES", 1)  # the first one says all
    monkeypatch.setattr(client, "SHUTDOWN_GRACE_SECONDS", 0.5)  # which most of them do not answer
    monkeypatch.setattr(hostile_engine, "TOGETHER", 15)  # one pool for all
    monkeypatch.setattr(client, "TERMINATE_GRACE_SECONDS", 0.5)
    report = hostile_engine.run(15, tmp_path)
    assert report.cases == 15
    assert report.faults == 0, report
