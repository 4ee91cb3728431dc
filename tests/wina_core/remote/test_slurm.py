"""Array jobs of a database: settings, elements that die or are interrupted, and what is merged of them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wina_core.cli.arrays import compute_element
from wina_core.errors import WinaError
from wina_core.jobs import EvaluateJob, PendingRun
from wina_core.records import MetricRecord, UnitRecord
from wina_core.remote import slurm, slurm_settings
from wina_core.remote.slurm import SlurmArray
from wina_core.remote.slurm_settings import SlurmSettings, parse_settings
from wina_core.specs import SYNTHETIC, Configuration, EvaluationSpec, MethodSpec, ModelSource, RunSpec, SyntheticSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.studies import StudySpec
from wina_core.store import MetricFilter, Store

MODEL = ModelSource(location="synthetic")
EVALUATION = EvaluationSpec(synthetic=SyntheticSpec(size=32, seeds=2, networks=("lemma",)))
SPARSITIES = (0.2, 0.4, 0.6, 0.8)
SPECS = tuple(
    RunSpec(
        model=MODEL,
        rotation=Configuration().rotation,
        method=MethodSpec(name="wina"),
        plan=UniformSparsity(sparsity=sparsity),
        evaluation=EVALUATION,
    )
    for sparsity in SPARSITIES
)
HASHES = tuple(spec.content_hash() for spec in SPECS)
STUDY = StudySpec(
    name="queued",
    models=(MODEL,),
    configurations=(Configuration(method=MethodSpec(name="wina")),),
    sparsities=SPARSITIES,
    evaluation=EVALUATION,
)
ELEMENTS = tuple(
    EvaluateJob(runs=tuple(PendingRun(spec=spec, units=(SYNTHETIC,)) for spec in specs))
    for specs in (SPECS[:2], SPECS[2:])
)

pytestmark = pytest.mark.usefixtures("home")


class Queue:
    """The place of submitit's executor and of squeue."""

    def __init__(self) -> None:
        self.elements: list[Any] = []
        self.states = ["pending", "pending"]

    @contextmanager
    def batch(self) -> Iterator[None]:
        yield

    def submit(self, element: object) -> Any:
        self.elements.append(element)
        return SimpleNamespace(job_id=f"7_{len(self.elements) - 1}")


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    made = Queue()
    monkeypatch.setattr(slurm, "_executor", lambda *_: made)
    monkeypatch.setattr(slurm, "_element_states", lambda _: made.states)
    monkeypatch.setattr(slurm, "_call", lambda *_: subprocess.CompletedProcess((), 0, "", ""))
    return made


def submitted(store: Store, study: StudySpec = STUDY) -> SlurmArray:
    store.save_study(study, SPECS)
    return slurm.submit(ELEMENTS, study, SlurmSettings(), store, compute_element)


@contextmanager
def element_file(array: SlurmArray, index: int) -> Iterator[Store]:
    """Open the file of an element that has begun."""
    with Store(array.folder / f"{index}.sqlite", shared=True) as store:
        store.save_study(STUDY, [run.spec for run in ELEMENTS[index].runs])
        yield store


def record(store: Store, run: str, value: float = 1.0) -> None:
    metric = MetricRecord(task="lemma", metric="error", value=value)
    store.begin_run(run, None)
    store.record_unit(UnitRecord(run=run, unit=SYNTHETIC, metrics=(metric,), seconds=1.0))


def finish(array: SlurmArray, index: int) -> None:
    with element_file(array, index) as store:
        for run in array.runs[index]:
            record(store, run)


def statuses(store: Store) -> list[str | None]:
    return [store.run_status(run) for run in HASHES]


def test_a_later_program_merges_what_has_come(tmp_path: Path, queue: Queue) -> None:
    with Store(tmp_path / "results.sqlite") as store:
        array = submitted(store)
    queue.states = ["running", "pending"]
    finish(array, 0)
    with Store(tmp_path / "results.sqlite") as store:
        assert store.run_status(HASHES[3]) == "queued", "its program ended, and it waits in the queue"
        assert slurm.queued_runs(store) == set(HASHES)
        assert slurm.submitted_arrays(store) == [array]
        with Store(tmp_path / "other.sqlite") as other:
            assert not slurm.submitted_arrays(other)
        for _ in range(2):  # what comes twice is stored once
            assert slurm.update_array(array, store).done == 2
        assert len(store.metric_rows(MetricFilter())) == 2
        assert statuses(store) == ["done", "done", "queued", "queued"]
    queue.states = ["completed", "ended"]
    finish(array, 1)
    with Store(tmp_path / "results.sqlite") as store:
        look = slurm.update_array(array, store)
        assert (look.states, look.done, look.ended, look.failures) == ("1 completed, 1 ended", 4, True, [])
        assert statuses(store) == ["done"] * 4
        assert not slurm.submitted_arrays(store)
        assert not array.folder.exists()


def test_of_an_element_that_was_killed_stays_what_it_has_stored(store: Store, queue: Queue) -> None:
    array = submitted(store)
    with element_file(array, 0) as file:
        record(file, HASHES[0])
    queue.states = ["node fail", "running"]
    look = slurm.update_array(array, store)
    assert statuses(store) == ["done", "interrupted", "queued", "queued"]
    assert (look.states, look.ended) == ("1 node fail, 1 running", False)
    assert "submit the study again" in look.failures[0]
    assert slurm.queued_runs(store) == set(HASHES[2:])
    assert slurm.update_array(array, store).failures == []


def test_errors_of_runs_are_those_of_the_element(store: Store, queue: Queue) -> None:
    array = submitted(store)
    with element_file(array, 0) as file:
        record(file, HASHES[0])
        file.finish_run(HASHES[1], "failed", "no memory")
    queue.states = ["completed", "pending"]
    assert slurm.update_array(array, store).failures == ["no memory"]
    assert store.failed_runs() == {HASHES[1]: "no memory"}


def test_a_damaged_file_fails_its_element_alone(store: Store, queue: Queue) -> None:
    array = submitted(store)
    (array.folder / "0.sqlite").write_bytes(b"no database" * 1000)
    finish(array, 1)
    queue.states = ["running", "running"]
    assert not slurm.update_array(array, store).failures, "it may be just being made"
    queue.states = ["completed", "completed"]
    element, place = slurm.update_array(array, store).failures
    assert "0.sqlite" in element
    assert place == f"Not merged, and kept: {array.folder / '0.sqlite'}."
    assert statuses(store) == ["interrupted", "interrupted", "done", "done"]
    assert (array.folder / "0.sqlite").exists()
    assert not slurm.submitted_arrays(store)


def test_cancelling_keeps_what_was_stored(store: Store, queue: Queue) -> None:
    array = submitted(store)
    with element_file(array, 0) as file:
        record(file, HASHES[0])
    queue.states = ["completing", "cancelled"]
    slurm.cancel(array, store)
    assert slurm.submitted_arrays(store) == [array], "one of its elements is just ending"
    queue.states = ["cancelled", "cancelled"]
    assert not slurm.update_array(array, store).failures
    assert statuses(store) == ["done", *["cancelled"] * 3]
    assert not slurm.submitted_arrays(store)


def test_an_element_computes_what_its_file_lacks(tmp_path: Path) -> None:
    file = tmp_path / "0.sqlite"
    with Store(file, shared=True) as store:
        store.save_study(STUDY, SPECS[:2])
        record(store, HASHES[0], value=-1.0)
    compute_element(STUDY, ELEMENTS[0], file)
    with Store(file, shared=True) as store:
        assert statuses(store)[:2] == ["done", "done"]
        assert [row.value for row in store.metric_rows(MetricFilter()) if row.run == HASHES[0]] == [-1.0]
    assert not file.with_name("0.sqlite-wal").exists()


def test_settings_become_options_of_sbatch() -> None:
    settings = parse_settings(["partition=gpu,gpus=1,time=1:30:00,parallel=4", "nodelist=a1,a2", "licenses=x:2"])
    assert (settings.time, settings.parallel) == (90, 4)
    options = {"partition": "gpu", "gpus-per-node": "1", "nodelist": "a1,a2", "licenses": "x:2"}
    assert settings.options == options


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("1:30", 2), ("1:30:00", 90), ("2-0", 2880), ("1-2:03:04", 1564)]
)
def test_times_are_those_of_slurm(text: str, expected: int) -> None:
    assert slurm_settings.minutes(text) == expected


@pytest.mark.parametrize(
    "setting",
    [
        *("partition", "gpus=one", "time=soon", "time=0", "mem=lots", "=gpu", "cpus=-1", "partition="),
        *("partition=a\nrm -rf ~", "comment=$(touch x)", "comment=`id`", "account=a'b"),
        *("wrap=touch x", "wra=touch x", "export=ALL", "output=/etc/passwd"),
    ],
)
def test_a_setting_of_another_type_or_that_could_become_a_command_is_refused(setting: str) -> None:
    with pytest.raises(WinaError, match="Slurm setting"):
        parse_settings([setting])


@pytest.mark.skipif(os.name == "nt", reason="shell scripts in the place of Slurm's programs")
def test_no_password_of_a_database_goes_to_the_queue(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit")
    for name in ("srun", "sbatch"):
        (tmp_path / name).write_text(f"#!/bin/sh\nenv > '{tmp_path}/environment'\necho Submitted batch job 7\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("WINA_DATABASE", "postgresql://me:sesame@host/db")
    monkeypatch.setenv("PGPASSWORD", "sesame")
    array = submitted(store)
    assert array.names == ("7_0", "7_1")
    assert "sesame" not in (tmp_path / "environment").read_text()
    assert os.environ["PGPASSWORD"] == "sesame"
    assert all(path.stat().st_mode & 0o077 == 0 for path in (array.folder, *array.folder.glob("*.pkl")))


def test_no_ordinary_command_loads_submitit() -> None:
    code = "import sys, wina_core.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"submitit", "cloudpickle", "ray", "psycopg"} & set(loaded)
