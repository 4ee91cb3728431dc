"""A host that outlives its client: what it computes is stored, seen by those who attach, and stays one host's."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wina_core.engine.engine_events import PATIENCE, Events
from tests.wina_core.engine.hosted import JOB, RUNS, Hosted
from wina_core.engine.host import client as client_module
from wina_core.engine.host import peer as peer_module
from wina_core.engine.host.client import attach
from wina_core.engine.host.peer import Peer
from wina_core.engine.host.place import Place
from wina_core.jobs import Attached, Cancel, Done, ExportModelJob, RotateJob, Submit
from wina_core.specs import RotationSpec
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
    monkeypatch.setattr(client_module, "STOP_SECONDS", 0.5)
    assert attach(Events(), hosted.database) is None


def test_the_address_is_for_this_user_alone(hosted: Hosted) -> None:
    hosted.submit()
    hosted.detach()
    assert Place(hosted.database)._file.stat().st_mode & 0o077 == 0


def test_a_host_that_ends_turns_clients_away_and_the_next_one_starts_anew(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping, go = threading.Event(), threading.Event()
    stop = hosted.host._pool.stop

    def slow() -> None:
        stopping.set()
        assert go.wait(PATIENCE)
        stop()

    monkeypatch.setattr(hosted.host._pool, "stop", slow)
    hosted.submit()
    hosted.detach()
    hosted.leave()
    hosted.engine.complete()
    assert stopping.wait(PATIENCE)
    threading.Timer(0.5, go.set).start()
    assert attach(Events(), hosted.database) is None, "it waited until the host had gone"
    assert hosted.ends()


def test_a_detach_that_a_dead_host_leaves_open_is_refused(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted.host, "_detach", lambda _database: hosted.host.end() or "never sent")
    monkeypatch.setattr(Peer, "send", lambda *_messages: None)
    assert hosted.detach().error


def test_a_client_that_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "_MOST_WAITING", 10)
    ours, theirs = socket.socketpair()
    dropped = threading.Event()
    peer = Peer(ours.makefile("rb"), ours.makefile("wb"), dropped.set)
    message = Attached(recording=True)
    for _ in range(50_000):
        peer.send(message)
        if dropped.is_set():
            break
    assert dropped.is_set()
    assert peer._outbox.qsize() <= 12
    theirs.close()
    ours.close()


@pytest.mark.parametrize("kind", ["rotate", "export_model"])
def test_a_job_that_writes_a_folder_is_not_resumed(tmp_path: Path, kind: str) -> None:
    folder = str(tmp_path / "victim")
    job = (
        RotateJob(model=RUNS[0].model, rotation=RotationSpec(), export_to=folder)
        if kind == "rotate"
        else ExportModelJob(spec=RUNS[0], folder=folder)
    )
    with Store(tmp_path / "results.sqlite") as store:
        store.keep_jobs([Submit(job_id="job", job=job)])
    with Store(tmp_path / "results.sqlite") as store:
        assert store.unfinished_jobs() == []
