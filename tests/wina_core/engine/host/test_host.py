"""A host that outlives its client: what it computes is stored, seen by those who attach, and stays one host's."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.wina_core.engine.engine_events import PATIENCE, Events, evaluate, run
from tests.wina_core.engine.fake_pool import FakeClient
from wina_core.engine.client.pool import EnginePool
from wina_core.engine.host.client import HostClient, _Link, attach
from wina_core.engine.host.host import Host
from wina_core.engine.host.place import Place
from wina_core.engine.protocol import (
    Attached,
    Cancel,
    Detach,
    Detached,
    Done,
    Event,
    Submit,
)
from wina_core.specs import Configuration
from wina_core.specs.studies import StudySpec
from wina_core.store import Store

RUNS = (run(0.2), run(0.4))
STUDY = StudySpec(name="test", models=(RUNS[0].model,), configurations=(Configuration(),))


class Hosted:
    """A host in this process over one fake engine, with the client that started it."""

    def __init__(self, folder: Path) -> None:
        self.database = f"sqlite:///{folder / 'results.sqlite'}"
        self.store = Store(self.database)
        """The store of the client's program."""
        self.engines: list[FakeClient] = []
        self.host = Host(self._pool)
        there, here = os.pipe(), os.pipe()
        self.events = Events()
        requests, events = os.fdopen(there[0], "rb"), os.fdopen(here[1], "wb")
        self.thread = threading.Thread(target=self.host.serve, args=(requests, events))
        self.thread.start()
        link = _Link(os.fdopen(here[0], "rb"), os.fdopen(there[1], "wb"))
        self.client = HostClient(self.events, lambda: link)
        self.client.start()

    def _pool(self, on_event: Callable[[Event], None]) -> EnginePool:
        def client(to: Callable[[Event], None], environment: object) -> FakeClient:
            self.engines.append(FakeClient(to, environment, eager=False))  # type: ignore[arg-type]
            return self.engines[-1]

        return EnginePool(on_event, [{}], client)  # type: ignore[arg-type]

    @property
    def engine(self) -> FakeClient:
        return self.engines[0]

    def submit(self, job_id: str = "job") -> None:
        self.store.save_study(STUDY, RUNS)
        self.client.send(Submit(job_id=job_id, job=evaluate(*RUNS), title="Evaluate"))
        self.engine.given()

    def detach(self) -> Detached:
        self.client.send(Detach(database=self.database))
        return self.events.wait(Detached)

    def leave(self) -> None:
        """End the client's program."""
        self.client.leave()
        self.store.close()

    def ends(self) -> bool:
        self.thread.join(PATIENCE)
        return not self.thread.is_alive()


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
    other.client.send(Submit(job_id="other", job=evaluate(*RUNS)))
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
