"""The command line against a real Slurm: submit, list and cancel; `tests/trust/test_slurm.py` computes."""

import time
from pathlib import Path

import pytest

from tests.wina_core.conftest import Wina
from tests.wina_core.remote.slurm_server import SlurmServer, slurm

__all__ = ["slurm"]

STUDY = """\
name = "queued"
sparsities = [0.2, 0.4]
models = [{ location = "synthetic" }]
[evaluation]
synthetic = { size = 32, seeds = 2, networks = ["lemma"] }
[[configurations]]
method = { name = "wina" }
"""

pytestmark = [pytest.mark.service, pytest.mark.usefixtures("slurm", "home")]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "queued.toml"
    path.write_text(STUDY)
    return path


def submit(wina: Wina, study: Path, *words: str) -> str:
    code, _, err = wina("study", "submit", study, *words)
    assert code == 0, err
    return err


def test_a_study_waits_in_the_queue_until_it_is_cancelled(wina: Wina, study: Path, slurm: SlurmServer) -> None:
    assert "2 elements" in submit(wina, study, "--slurm", "begin=now+1hour", "--runs-per-element", "1")
    assert "they are left out" in submit(wina, study)
    job, title, *state = wina.succeeds("jobs").splitlines()[1].split()
    assert (title, state[:3]) == ("queued", ["local", "2", "pending"])
    assert "no log" in wina.succeeds("jobs", "log", job)
    wina.succeeds("jobs", "cancel", job)
    end = time.monotonic() + 120
    while "PENDING" in slurm.call("squeue", "--noheader", "--format=%T"):
        assert time.monotonic() < end, "it waits on"
        time.sleep(0.1)
    assert job not in wina.succeeds("jobs")
    assert "2 elements" in submit(wina, study, "--slurm", "begin=now+1hour", "--runs-per-element", "1")
    wina.succeeds("jobs", "cancel", "--all")


def test_what_slurm_refuses_is_said_in_its_words(wina: Wina, study: Path) -> None:
    refused = wina.fails(1, "study", "submit", study, "--slurm", "partition=nowhere")
    assert "Invalid partition name" in refused
    refused = wina.fails(1, "study", "submit", study, "--slurm", "foo=bar")
    assert "refuses the job: unrecognized option '--foo=bar'; check the settings." in refused
