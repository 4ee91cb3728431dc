"""Kill and preempt elements of an array job in a real Slurm, and look for anything lost, doubled or left behind.

The study's runs are synthetic, so that most of the time goes to starting the elements' processes. `wina jobs follow`
merges the results, and is killed once, too. What killed elements have left is submitted again.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.trust.attack import called
from tests.trust.stored_study import StoredStudy
from tests.wina_core.remote.slurm_server import SlurmServer, slurm

__all__ = ["slurm"]

pytestmark = pytest.mark.service
STUDY = """\
name = "queued"
sparsities = [0.1, 0.5]
models = [{ location = "synthetic" }]
[evaluation]
synthetic = { size = 32, seeds = 3, networks = ["lemma"] }
[[configurations]]
method = { name = "wina" }
"""
RUNS = 2
SECONDS = 900.0


# By SIGKILL, as a preemption requeues, by scancel of the script, and by the signal before a time limit.
@pytest.mark.parametrize("way", ["kill", "preempt", "kill_script", "warn"])
def test_an_array_whose_elements_die_is_complete_each_run_once(
    way: str, tmp_path: Path, slurm: SlurmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / 'it\'s $HOME `id` "here"'
    folder.mkdir()
    study = folder / "queued.toml"
    study.write_text(STUDY)
    environment = os.environ | slurm.environment | {"WINA_HOME": str(folder), "OMP_NUM_THREADS": "1"}
    submission = ("study", "submit", study, "--slurm", "partition=test,time=10", "--runs-per-element", 1)
    start, chance, killed, killed_follower = time.monotonic(), random.Random(3), False, False
    while "Submitted" in wina(environment, *submission):
        follower = follow(environment)
        while follower.poll() is None or not killed_follower:
            if time.monotonic() - start > SECONDS:
                follower.kill()
                pytest.fail(slurm.call("squeue", "--array", "--states=all"))
            elements = slurm.running()
            if not killed and elements:
                time.sleep(chance.random() * 3)  # from the start of the process to the end of its runs
                getattr(slurm, way)(chance.choice(elements))
                killed = True
            if killed and not killed_follower:
                follower.send_signal(signal.SIGKILL)
                follower.wait()
                follower, killed_follower = follow(environment), True
            time.sleep(0.1)
    assert killed
    stored = StoredStudy(folder / "data")
    results = stored.results()
    monkeypatch.setenv("WINA_HOME", str(folder / "here"))
    called(["study", "run", str(study)])
    expected = StoredStudy(folder / "here" / "data").results()
    assert {table: results[table] for table in ("runs", "units", "metrics")} == {
        table: expected[table] for table in ("runs", "units", "metrics")
    }
    assert len(results["units"]) == RUNS
    assert (stored.doubled(), stored.damages(), stored.is_done()) == (0, 0, True)
    assert list((folder / "data" / "arrays").iterdir()) == []


def wina(environment: dict[str, str], *words: object) -> str:
    """Run a command and return its messages."""
    command = [sys.executable, "-m", "wina_core.cli", *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def follow(environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start what merges the results."""
    command = [sys.executable, "-m", "wina_core.cli", "jobs", "follow"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
