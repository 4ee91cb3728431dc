"""An element that submitit's local executor runs, where no Slurm does: killed, queued again and imported."""

import os
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from tests.wina_core.remote.cluster.array import ELEMENTS, SPECS, STUDY
from tests.wina_core.remote.cluster.slurm_server import missing
from wina_core.remote.cluster import arrays
from wina_core.remote.cluster.asking import ask
from wina_core.remote.cluster.requests import ElementStatus
from wina_core.remote.cluster.slurm import queue
from wina_core.remote.cluster.slurm.settings import SlurmSettings
from wina_core.store import MetricFilter, Store

local = pytest.importorskip("submitit.local.local", reason="the optional extra `slurm`")
PATIENCE = 300.0


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Any]]:
    """Receives a way to repeat each start of element 0, whose state is that of its last process."""
    jobs: list[Any] = []
    starts: list[Callable[[], Any]] = []

    class Executor(local.LocalExecutor):
        def update_parameters(self, **asked: Any) -> None:
            super().update_parameters(stderr_to_stdout=asked["stderr_to_stdout"])

        def _submit_command(self, command: str) -> Any:
            jobs.append(super()._submit_command(command))
            starts.append(lambda: self._submit_command(command))
            return jobs[-1]

    def state(*_: object) -> dict[int, ElementStatus]:
        return {0: ElementStatus(state="failed" if jobs[-1]._process.poll() is not None else "running")}

    def start_again(*_: object) -> dict[int, str]:
        starts[-1]()
        return {}

    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    monkeypatch.setattr("submitit.slurm.slurm.SlurmExecutor", Executor)
    monkeypatch.setattr(queue, "element_states", state)
    monkeypatch.setattr(queue, "requeue", start_again)
    return starts


@pytest.mark.skipif(not missing() and "WINA_LONG_TESTS" not in os.environ, reason="a real Slurm does this: tests/trust")
@pytest.mark.usefixtures("home")
def test_an_element_that_is_killed_is_complete_after_another_process(
    store: Store, started: list[Callable[[], Any]]
) -> None:
    store.save_study(STUDY, SPECS[:2])
    array = arrays.submit(ELEMENTS[:1], "queued", "local", SlurmSettings(), store, ask)
    end, controller = time.monotonic() + PATIENCE, psutil.Process(int(array.job))
    while not controller.children():
        assert time.monotonic() < end
    controller.children()[0].kill()
    while (update := arrays.update(array, store, ask)) is None or not update.progress.ended:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert [store.run_status(spec.content_hash()) for spec in SPECS[:2]] == ["done", "done"]
    found = [(row.run, row.metric) for row in store.metric_rows(MetricFilter())]
    assert len(found) == len(set(found)) == 4, "two runs with an error and its deviation"
    assert len(started) == 2
