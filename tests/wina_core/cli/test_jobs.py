"""Jobs of other programs on the command line: listed, followed, cancelled, resumed and discarded."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wina_core.engine.stored_job import JOB, RUNS, STUDY
from tests.wina_core.samples import unit
from wina_core.cli import jobs
from wina_core.engine.client.background import Handover
from wina_core.errors import WinaError
from wina_core.jobs import EvaluateJob, ExportModelJob, RotateJob, Submit
from wina_core.specs import RotationSpec
from wina_core.store import Store


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'results.sqlite'}"


@pytest.fixture
def computing(url: str) -> Iterator[Store]:
    """The store of another living program, with a job."""
    with Store(url) as store:
        store.save_study(STUDY, RUNS)
        store.keep_jobs([Submit(job_id="job", job=JOB, title="Evaluate")])
        yield store


@pytest.fixture
def orphaned(url: str) -> str:
    """A database with a job of a program that died."""
    with Store(url) as store:
        store.save_study(STUDY, RUNS)
        job = JOB.model_copy(update={"run_model_code": True})
        store.keep_jobs([Submit(job_id="job", job=job, title="Evaluate")])
    return url


def lines(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split() for line in capsys.readouterr().out.splitlines()]


class Called:
    """A context of typer without a subcommand."""

    invoked_subcommand = None


def complete(store: Store) -> None:
    for spec in RUNS:
        for name in spec.evaluation.units:
            store.record_unit(unit(spec, name))
    store.forget_jobs(["job"])


def test_the_list_has_the_jobs_of_other_programs(
    computing: Store, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.list_jobs(Called(), url)  # type: ignore[arg-type]
    assert lines(capsys)[1] == ["job", "Evaluate", "local", "waiting", "0", "4", "measurements", "0"]
    computing.record_unit(unit(RUNS[0], RUNS[0].evaluation.units[0]))
    computing.begin_run(RUNS[0].content_hash(), None)
    jobs.list_jobs(Called(), url)  # type: ignore[arg-type]
    assert lines(capsys)[1] == ["job", "Evaluate", "local", "running", "1", "4", "measurements", "1"]


def test_cancelling_takes_the_job_away_from_its_program(computing: Store, url: str) -> None:
    with pytest.raises(WinaError, match='There is no job "other"'):
        jobs.cancel(["other"], database=url)
    assert computing.kept_jobs() == {"job"}
    jobs.cancel(everything=True, database=url)
    assert computing.kept_jobs() == set()


def test_following_returns_once_all_jobs_have_ended(computing: Store, url: str) -> None:
    end = threading.Timer(0.5, complete, [computing])
    end.start()
    jobs.follow(url)
    end.join()
    assert [row.status for row in computing.runs()] == ["done", "done"]


def test_following_tells_which_runs_failed(computing: Store, url: str) -> None:
    def fail() -> None:
        computing.finish_run(RUNS[0].content_hash(), "failed", "Memory ran out.")
        computing.forget_jobs(["job"])

    end = threading.Timer(0.5, fail)
    end.start()
    with pytest.raises(WinaError, match=r"Memory ran out\."):
        jobs.follow(url)
    end.join()


def test_a_job_of_a_dead_program_is_listed_and_discarded(orphaned: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Store(orphaned) as store:
        store.keep_jobs([Submit(job_id="two", job=JOB, title="Shared", machines=("gpu", "local"))])
    jobs.list_jobs(Called(), orphaned)  # type: ignore[arg-type]
    assert [line[1:-4] for line in lines(capsys)[1:]] == [
        ["Evaluate", "local", "unfinished"],
        ["Shared", "gpu,", "local", "unfinished"],
    ]
    jobs.discard(orphaned)
    with Store(orphaned) as store:
        assert store.unfinished_jobs() == []


def test_resuming_starts_the_job_in_the_background_without_the_consent_of_the_database(
    orphaned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Handover] = []
    monkeypatch.setattr(jobs, "start_in_background", started.append)
    jobs.resume(database=orphaned)
    (submit,) = started[0].jobs
    assert isinstance(submit.job, EvaluateJob)
    assert submit.job.runs == JOB.runs
    assert not submit.job.run_model_code


def test_a_job_that_writes_a_folder_is_not_resumed(tmp_path: Path, url: str) -> None:
    folder = str(tmp_path / "victim")
    rotate = RotateJob(model=RUNS[0].model, rotation=RotationSpec(), export_to=folder)
    export = ExportModelJob(spec=RUNS[0], folder=folder)
    with Store(url) as store:
        store.keep_jobs([Submit(job_id=job.kind, job=job) for job in (rotate, export)])
    with Store(url) as store:
        assert store.unfinished_jobs() == []
