"""The store's thread: when the database cannot be opened, and how often it tells that something was stored."""

import pytest
from wina_app.services.store_thread import Pace, StoreThread

from tests.wina_core.samples import ENVIRONMENT, LAYOUT, MODEL, opened_models, summary
from wina_core.errors import WinaError
from wina_core.jobs import Done, InspectJob, Ready, Result, Submit
from wina_core.specs.plans import SparsityPlan
from wina_core.store import Store
from wina_core.store.refusals import UnwritableError


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (WinaError("It is damaged."), "It is damaged."),
        (KeyError("version"), "Something unforeseen happened (KeyError: 'version'); the details are in the log."),
    ],
)
def test_a_database_that_cannot_be_opened_is_told_once_and_to_everybody_who_waits(qtbot, monkeypatch, error, told):
    def refuse(_place):
        raise error

    monkeypatch.setattr("wina_core.store.Store", refuse)
    failures, refusals = [], []
    thread = StoreThread("anywhere")
    thread.failed.connect(failures.append)
    thread.ask(lambda store: store, refused=refusals.append)
    thread.start()
    thread.write(lambda store: store, refusals.append)
    thread.finish()
    qtbot.waitUntil(lambda: len(refusals) == 2)
    assert failures == [told]
    assert refusals == [told, told]


def test_changes_are_told_at_once_and_then_at_most_once_a_second():
    pace = Pace()
    assert pace.patience(0.0) is None
    pace.change(0.0)
    assert pace.is_due(0.0, at_rest=True), "the first one at once"
    assert not pace.is_due(0.1, at_rest=True), "and only once"
    pace.change(0.25)
    assert not pace.is_due(0.25, at_rest=True)
    assert pace.patience(0.25) == 0.75
    assert pace.is_due(1.0, at_rest=True)


def test_a_burst_is_told_at_its_end_but_an_endless_one_all_the_same():
    pace = Pace()
    pace.change(5.0)
    assert not pace.is_due(5.0, at_rest=False)
    assert not pace.is_due(5.9, at_rest=False)
    pace.change(5.95)
    assert pace.is_due(6.0, at_rest=False)


def test_what_another_program_writes_is_shown(qtbot, tmp_path):
    thread = StoreThread(str(tmp_path / "results.sqlite"))
    thread.start()
    with qtbot.waitSignal(thread.opened):
        pass
    with qtbot.waitSignal(thread.changed), Store(tmp_path / "results.sqlite") as other:
        other.save_plan("theirs", SparsityPlan.uniform(LAYOUT, 0.5))
    thread.finish()


MESSAGES = (
    Ready(pid=1, environment=ENVIRONMENT),
    Submit(job_id="job", job=InspectJob(model=MODEL)),
    Result(job_id="job", value=summary()),
    Done(job_id="job"),
)


@pytest.fixture
def full(monkeypatch):
    """A disk that is full as long as the list has an item."""
    reasons = ["The disk is full."]
    record = Store.record_model

    def refuse(store, *arguments):
        if reasons and store.url.database.endswith("results.sqlite"):
            raise UnwritableError(reasons[0])
        record(store, *arguments)

    monkeypatch.setattr(Store, "record_model", refuse)
    monkeypatch.setattr("wina_app.services.store_thread._RETRY_SECONDS", 0.01)
    monkeypatch.setattr("wina_core.store.backlog.RETRY_SECONDS", 0.0)
    return reasons


def test_results_wait_on_a_full_disk_and_are_stored_once_there_is_space(qtbot, tmp_path, full):
    waits, refusals = [], []
    thread = StoreThread(str(tmp_path / "results.sqlite"))
    thread.waits.connect(lambda *state: waits.append(state))
    thread.start()
    thread.record(MESSAGES, refusals.append)
    qtbot.waitUntil(lambda: waits == [(1, "The disk is full.")])
    full.clear()
    qtbot.waitUntil(lambda: waits[-1] == (0, ""))
    thread.finish()
    assert refusals == []
    with Store(tmp_path / "results.sqlite") as store:
        assert opened_models(store) == [summary()]


def test_results_that_wait_when_the_window_is_closed_are_stored_at_the_next_start(qtbot, tmp_path, full):
    place = str(tmp_path / "results.sqlite")
    thread = StoreThread(place)
    thread.start()
    thread.record(MESSAGES, pytest.fail)
    thread.finish()
    full.clear()
    remarks, thread = [], StoreThread(place)
    thread.remarked.connect(remarks.append)
    thread.start()
    qtbot.waitUntil(lambda: len(remarks) == 1)
    thread.finish()
    assert "Stored the results that waited in" in remarks[0]


def test_a_database_that_can_only_be_read_is_open_and_says_so_until_it_can_be_written(qtbot, tmp_path, monkeypatch):
    Store(tmp_path / "results.sqlite").close()
    monkeypatch.setattr("wina_app.services.store_thread._RETRY_SECONDS", 0.01)
    waits, answers = [], []
    with monkeypatch.context() as patch:

        def refuse(_url):
            raise OSError(28, "No space left on device")

        patch.setattr("wina_core.store.store.sessions_of", refuse)
        thread = StoreThread(str(tmp_path / "results.sqlite"))
        thread.waits.connect(lambda *state: waits.append(state))
        thread.ask(lambda store: store.metric_rows(), answers.append)
        thread.start()
        qtbot.waitUntil(lambda: bool(waits and answers))
    qtbot.waitUntil(lambda: waits[-1] == (0, ""))
    thread.finish()
    assert answers == [[]]
    assert "is full or failing" in waits[0][1]
