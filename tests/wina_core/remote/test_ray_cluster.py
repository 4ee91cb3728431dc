"""Engines on the nodes of a real Ray cluster: nodes killed, a run that ends engines, engines that cannot start.

test_ray_engines.py has the same with a cluster that is none: Ray gives a node 30 s to start, which a busy machine
exceeds.
"""

import shlex
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.trust.ray_grid import ray_cluster, run_grid, sleeping_engines
from tests.wina_core.engine.engine_events import Events, evaluate, run
from wina_core.cli import app
from wina_core.files.paths import resources_folder
from wina_core.jobs import Failed, Submit
from wina_core.remote.registry import save_machine
from wina_core.specs.machine import RayCluster

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(sys.platform == "win32", reason="Ray's test clusters need Linux or macOS"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray")
    with ray_cluster(3) as made:
        yield made


def commands(beginning: str) -> list[list[str]]:
    """Return the guide's commands that begin so, as arguments."""
    lines = (resources_folder() / "guide" / "ray.md").read_text(encoding="utf-8").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith(f"    {beginning} ")]


@pytest.mark.usefixtures("home")
def test_the_guides_command_gives_the_same_numbers_as_without_a_cluster(cluster: Any) -> None:
    (command,) = (each for each in commands("wina") if each[0] == "eval")
    save_machine(RayCluster(name="grid", address=cluster.address))
    there, here = command, [part for part in command if part not in ("--machine", "grid")]
    options = ("--dtype", "float32", "--tokens", "512", "--recompute", "--json", "--yes")
    printed = [CliRunner().invoke(app, [*each, *options]).stdout for each in (there, here)]
    assert printed[0] == printed[1]
    assert "kl" in printed[0]


def test_the_guides_options_exist() -> None:
    from ray.scripts.scripts import start

    known = {option for parameter in start.params for option in parameter.opts}
    for _, *options in commands("ray"):
        assert {option.partition("=")[0] for option in options} <= known
    for command in commands("wina"):
        words = command[: 2 if command[0] in ("study", "machines") else 1]
        shown = CliRunner().invoke(app, [*words, "--help"]).output
        assert all(part in shown for part in command if part.startswith("--"))


def test_engines_that_start_on_no_node_fail_the_job_with_the_reason(cluster: Any) -> None:
    events = Events()
    pool = sleeping_engines(events, cluster.address, "never")
    pool.send(Submit(job_id="job", job=evaluate(run(0.5))))
    end = events.end("job")
    pool.stop()
    assert isinstance(end, Failed)
    assert "No node of the Ray cluster can start an engine" in end.error
    assert "There is no torch on this node." in end.error


def test_a_killed_node_costs_no_run_and_a_run_that_ends_three_engines_fails_alone(cluster: Any) -> None:
    report = run_grid(cluster, runs=30, kills=1, seconds=0.1, poisoned=True)  # the last test: it leaves two nodes
    assert report.faults == 0
    (error,) = report.failed
    assert "ended 3 engines, the last of which stopped with exit code 3" in error
