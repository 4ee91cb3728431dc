"""A host that outlives its client: what it computes is stored, seen by those who attach, and stays one host's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wina_core.engine.engine_events import PATIENCE, Events
from tests.wina_core.engine.hosted import JOB, Hosted
from wina_core.engine.host.client import attach
from wina_core.engine.host.place import Place
from wina_core.engine.protocol import Attached, Cancel, Done, Submit
from wina_core.store import Store


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    made = Hosted(tmp_path)
    yield made
    made.leave()
    made.host.end()
    assert made.ends()


def statuses(hosted: Hosted) -> list[str]:
    with Store(hosted.database) as store:
        return [row.status for row in store.runs()]


def test_a_host_ends_with_the_client_that_started_it(hosted: Hosted) -> None:
    hosted.submit()
    hosted.leave()
    assert hosted.ends()


def test_a_detached_host_computes_on_records_and_ends_once_nothing_is_left(hosted: Hosted) -> None:
    hosted.submit()
    assert hosted.detach().error == ""
    hosted.leave()
    hosted.engine.complete()
    assert hosted.ends()
    assert statuses(hosted) == ["done", "done"]
    assert Place(hosted.database).find() is None


def test_a_detached_host_keeps_its_runs_from_being_marked_as_interrupted(hosted: Hosted) -> None:
    hosted.submit()
    hosted.detach()
    hosted.leave()
    assert statuses(hosted) == ["queued", "queued"], "their owner lives"
    with Store(hosted.database) as store:
        assert store.unfinished_jobs() == []


def test_a_client_that_attaches_sees_the_jobs_and_cancels_them(hosted: Hosted) -> None:
    hosted.submit()
    hosted.detach()
    hosted.leave()
    hosted.engine.finish(hosted.engine.runs[0])
    events = Events()
    client = attach(events, hosted.database)
    assert client is not None
    (status,) = events.wait(Attached).jobs
    assert (status.submit.title, status.submit.job_id) == ("Evaluate", "job")
    client.send(Cancel(job_id="job"))
    hosted.engine.given(1, Cancel)
    hosted.engine.say(Done(job_id=hosted.engine.part, cancelled=True))
    events.wait(Done)
    client.leave()
    assert hosted.ends()
    assert statuses(hosted) == ["done", "cancelled"]


def test_a_database_has_one_background_host(hosted: Hosted, tmp_path: Path) -> None:
    hosted.submit()
    hosted.detach()
    other = Hosted(tmp_path)
    other.client.send(Submit(job_id="other", job=JOB))
    assert "in the background already" in other.detach().error
    other.leave()
    assert other.ends(), "it was refused, so it ends with its client"


def test_nobody_attaches_without_the_token(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    hosted.submit()
    hosted.detach()
    hosted.leave()
    place = Place(hosted.database)
    address = place.find()
    assert address is not None
    monkeypatch.setattr(Place, "find", lambda _self: address.model_copy(update={"token": "guessed"}))
    events = Events()
    client = attach(events, hosted.database)
    assert client is not None
    client._link.reader.join(PATIENCE)  # type: ignore[union-attr]
    assert not [event for event in events.all if isinstance(event, Attached)]


def test_the_address_is_for_this_user_alone(hosted: Hosted) -> None:
    hosted.submit()
    hosted.detach()
    assert Place(hosted.database)._file.stat().st_mode & 0o077 == 0
