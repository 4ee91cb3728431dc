"""Kill and preempt elements of an array job in a real Slurm, and look for anything lost, doubled or left behind.

    python -m tests.trust.slurm --runs 40 --kills 10

The study's runs are synthetic, so that most of the time goes to starting the elements' processes. One kill in four ends
an element's processes by SIGKILL, one its script by scancel, one requeues it as a preemption does, one is the signal
before a time limit. `wina jobs follow` merges the results, and is killed once, too. What killed elements have left is
submitted again.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.trust.attack import KillReport, called, counted, options, verdict
from tests.trust.stored_study import StoredStudy
from tests.wina_core.remote.slurm_server import SlurmServer, running_slurm

STUDY = """\
name = "queued"
sparsities = [{sparsities}]
models = [{{ location = "synthetic" }}]
[evaluation]
synthetic = {{ size = 32, seeds = {seeds}, networks = ["lemma"] }}
[[configurations]]
method = {{ name = "wina" }}
"""
SECONDS = 900.0


def run(runs: int, kills: int, seed: int, folder: Path, slurm: SlurmServer, *, per_element: int = 2) -> KillReport:
    """Submit, kill and import; return the report."""
    start, report, chance = time.monotonic(), KillReport(), random.Random(seed)
    study = folder / "queued.toml"
    sparsities = ", ".join(f"{0.1 + 0.8 * place / runs:.4f}" for place in range(runs))
    study.write_text(STUDY.format(sparsities=sparsities, seeds=3))
    environment = os.environ | slurm.environment | {"WINA_HOME": str(folder), "OMP_NUM_THREADS": "1"}
    stored = StoredStudy(folder / "data")
    submission = ("study", "submit", study, "--slurm", "partition=test,time=10", "--runs-per-element", per_element)
    hit: set[str] = set()
    left, killed_follower = kills, False
    while "Submitted" in _wina(environment, *submission):
        follower = _follow(environment)
        while follower.poll() is None or not killed_follower:
            if time.monotonic() - start > SECONDS:
                follower.kill()
                raise SystemExit(slurm.call("squeue", "--array", "--states=all"))
            fresh = [element for element in slurm.running() if element not in hit]
            if left and fresh:
                time.sleep(chance.random() * 3)  # from the start of the process to the end of its runs
                element = chance.choice(fresh)
                way = ("kill", "preempt", "kill_script", "warn")[left % 4]
                getattr(slurm, way)(element)
                hit.add(element)
                report.kills[way] += 1
                left -= 1
            if left <= kills // 2 and not killed_follower:
                follower.send_signal(signal.SIGKILL)
                follower.wait()
                follower, killed_follower = _follow(environment), True
            time.sleep(0.1)
    _check(report, stored, folder, study, runs)
    report.seconds = round(time.monotonic() - start, 1)
    return report


def _check(report: KillReport, stored: StoredStudy, folder: Path, study: Path, runs: int) -> None:
    results = stored.results()
    here = folder / "here"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINA_HOME", str(here))
        called(["study", "run", str(study)])
    expected = StoredStudy(here / "data").results()
    report.faults.update(
        {
            "missing": runs - len(results["units"]),
            "doubled": stored.doubled(),
            "damages": stored.damages(),
            "left": len(list((folder / "data" / "arrays").iterdir())) + (not stored.is_done()),
            "differing": sum(len({*results[table]} ^ {*expected[table]}) for table in ("runs", "units", "metrics")),
        }
    )


def _wina(environment: dict[str, str], *words: object) -> str:
    command = [sys.executable, "-m", "wina_core.cli", *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stderr


def _follow(environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "wina_core.cli", "jobs", "follow"],
        env=environment,
        stdout=subprocess.DEVNULL,
    )


def main() -> int:
    """Kill, print the report, and return the exit status."""
    given = options(__doc__, runs=40, kills=10, per_element=2, seed=1)
    with tempfile.TemporaryDirectory() as folder, running_slurm() as slurm:
        report = run(given.runs, given.kills, given.seed, Path(folder), slurm, per_element=given.per_element)
    return verdict("slurm", vars(report), counted(report.faults))


if __name__ == "__main__":
    sys.exit(main())
