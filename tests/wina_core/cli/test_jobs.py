"""Background jobs on the command line: listed, followed, cancelled, resumed and discarded."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wina_core.engine.engine_events import PATIENCE
from tests.wina_core.engine.hosted import JOB, RUNS, STUDY, Hosted
from wina_core.cli import jobs
from wina_core.engine.host import background
from wina_core.engine.host.client import HostClient
from wina_core.errors import WinaError
from wina_core.jobs import Cancel, Done, EvaluateJob, Submit
from wina_core.store import Store


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    made = Hosted(tmp_path)
    yield made
    made.leave()
    made.host.end()
    assert made.ends()


@pytest.fixture
def detached(hosted: Hosted) -> Hosted:
    """A host with one job, whose window was closed."""
    hosted.submit()
    hosted.detach()
    hosted.leave()
    return hosted


@pytest.fixture
def orphaned(tmp_path: Path) -> str:
    """A database with a job of a program that died."""
    url = f"sqlite:///{tmp_path / 'results.sqlite'}"
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


def test_the_list_has_the_background_jobs(detached: Hosted, capsys: pytest.CaptureFixture[str]) -> None:
    jobs.list_jobs(Called(), detached.database)  # type: ignore[arg-type]
    assert lines(capsys)[1][:4] == ["job", "Evaluate", "local", "running"]


def test_cancelling_ends_the_job_and_with_it_the_host(detached: Hosted) -> None:
    def end() -> None:
        detached.engine.given(1, Cancel)
        detached.engine.say(Done(job_id=detached.engine.part, cancelled=True))

    with pytest.raises(WinaError, match='There is no job "other"'):
        jobs.cancel(["other"], database=detached.database)
    engine = threading.Thread(target=end)
    engine.start()
    jobs.cancel(everything=True, database=detached.database)
    engine.join(PATIENCE)
    assert detached.ends()


def test_following_returns_once_all_jobs_have_ended(detached: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    def attached(database: str | None) -> background.BackgroundJobs:
        host = background.background_jobs(database)
        detached.engine.complete()
        return host

    monkeypatch.setattr(jobs, "background_jobs", attached)
    jobs.follow(detached.database)
    assert detached.ends()
    with Store(detached.database) as store:
        assert [row.status for row in store.runs()] == ["done", "done"]


def test_a_job_of_a_dead_program_is_listed_and_discarded(orphaned: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Store(orphaned) as store:
        store.keep_jobs([Submit(job_id="two", job=JOB, title="Shared", machines=("gpu", "local"))])
    jobs.list_jobs(Called(), orphaned)  # type: ignore[arg-type]
    assert [line[1:-3] for line in lines(capsys)[1:]] == [
        ["Evaluate", "local", "unfinished"],
        ["Shared", "gpu,", "local", "unfinished"],
    ]
    jobs.discard(orphaned)
    with Store(orphaned) as store:
        assert store.unfinished_jobs() == []


def test_resuming_starts_the_job_in_the_background_without_the_consent_of_the_database(
    orphaned: str, hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        background, "open_host", lambda on_event, _engines, _database: HostClient(on_event, lambda: hosted.link)
    )
    jobs.resume(database=orphaned)
    hosted.engine.given()
    job = hosted.engine.submits[0].job
    assert isinstance(job, EvaluateJob)
    assert job.runs == JOB.runs
    assert not job.run_model_code
    hosted.engine.complete()
    assert hosted.ends()
    with Store(orphaned) as store:
        assert [row.status for row in store.runs()] == ["done", "done"]
        assert store.unfinished_jobs() == []


def test_a_job_is_resumed_by_one_program(orphaned: str) -> None:
    with Store(orphaned) as first, Store(orphaned) as second:
        assert [submit.job_id for submit in first.unfinished_jobs(take=True)] == ["job"]
        assert second.unfinished_jobs(take=True) == []
    with Store(orphaned) as third:
        assert len(third.unfinished_jobs()) == 1, "the first one died, too"
