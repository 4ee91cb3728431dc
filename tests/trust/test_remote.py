"""A study on a machine over a real sshd."""

import os
import shutil
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.trust.attack import called
from tests.trust.kills import STUDY
from tests.trust.stored_study import StoredStudy
from tests.wina_core.engine.engine_events import Events
from tests.wina_core.remote.sshd import running_sshd
from tests.wina_core.tiny import tiny_folder, tiny_text
from wina_core.engine.client.pool import EnginePool
from wina_core.jobs import Done, EvaluateJob, Event, Partial, Submit
from wina_core.remote.machine_client import open_place
from wina_core.remote.registry import save_machine
from wina_core.store import Store
from wina_core.store.recorder import Recorders
from wina_core.studies.expand import labelled, specs_of
from wina_core.studies.gallery import find_study

pytestmark = [pytest.mark.service, pytest.mark.skipif(sys.platform == "win32", reason="no sshd for tests here")]
CUT_AFTER = 3
"""Measurements before the connection is cut."""


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo the changes of the environment."""
    for name in ("WINA_HOME", "PATH", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, os.environ.get(name, ""))


def test_a_study_over_ssh_has_the_local_numbers_over_a_cut_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.environ |= {"WINA_HOME": str(tmp_path / "here"), "OMP_NUM_THREADS": "1"}
    model, text, study = tiny_folder(tmp_path / "model"), Path(tiny_text(tmp_path)), tmp_path / "study.toml"
    study.write_text(STUDY.format(model=model.as_posix(), text=text.as_posix()))
    local = tmp_path / "local"
    local.mkdir()
    code, _, errors = called(f"study run {study} --log-samples --engines 1 --database {local / 'results.sqlite'}")
    assert code == 0, errors
    events, arrived = Events(), Counter[tuple[str, str]]()
    away = tmp_path / "away"
    away.mkdir()
    with running_sshd() as server, Store(away / "results.sqlite") as store:
        there = server.home / "work"
        for path in (model, text):
            target = there / path.relative_to(tmp_path)
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, target)
        server.put_on_path(monkeypatch, tmp_path / "bin")
        save_machine(server.machine(folders={str(tmp_path): str(there)}))
        named = find_study(str(study))
        store.save_study(named, labelled(named))
        job = EvaluateJob(runs=tuple(store.pending(specs_of(labelled(named)), samples=True)), samples=True)
        recorders, submit = Recorders(store), Submit(job_id="study", job=job, machines=("away",))
        recorders.record(submit)

        def on_event(event: Event) -> None:
            if event.type in ("ready", "run_started", "partial", "run_failed", "failed", "done"):
                recorders.record(event)  # type: ignore[arg-type]
            if isinstance(event, Partial):
                arrived[event.unit.run, event.unit.unit] += 1
                if arrived.total() == CUT_AFTER:
                    for process in server.connections():
                        with suppress(psutil.Error):
                            process.kill()
            events(event)

        pool = EnginePool(on_event, machines=open_place)
        pool.send(submit)
        assert events.end("study") == Done(job_id="study")
        pool.stop()
    assert max(arrived.values()) == 1
    assert arrived.total() == sum(len(run.units) for run in job.runs)
    assert StoredStudy(away).doubled() == 0
    assert StoredStudy(away).results() == StoredStudy(local).results()
