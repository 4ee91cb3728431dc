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


def test_a_result_that_a_full_disk_refuses_is_reported_and_the_next_ones_are_stored(qtbot, tmp_path, monkeypatch):
    reasons, refusals = ["The disk is full."], []
    record = Store.record_model

    def refuse(store, *arguments):
        if reasons:
            raise UnwritableError(reasons.pop())
        record(store, *arguments)

    monkeypatch.setattr(Store, "record_model", refuse)
    thread = StoreThread(str(tmp_path / "results.sqlite"))
    thread.start()
    for _ in range(2):
        thread.record(MESSAGES, refusals.append)
    thread.finish()
    qtbot.waitUntil(lambda: refusals == ["The disk is full."])
    with Store(tmp_path / "results.sqlite") as store:
        assert opened_models(store) == [summary()]


def test_a_database_that_can_only_be_read_is_open_and_says_so_until_it_can_be_written(qtbot, tmp_path, monkeypatch):
    Store(tmp_path / "results.sqlite").close()
    monkeypatch.setattr("wina_app.services.store_thread._RETRY_SECONDS", 0.01)
    problems, answers = [], []
    with monkeypatch.context() as patch:

        def refuse(_url):
            raise OSError(28, "No space left on device")

        patch.setattr("wina_core.store.store.sessions_of", refuse)
        thread = StoreThread(str(tmp_path / "results.sqlite"))
        thread.unwritable.connect(problems.append)
        thread.ask(lambda store: store.metric_rows(), answers.append)
        thread.start()
        qtbot.waitUntil(lambda: bool(problems and answers))
    qtbot.waitUntil(lambda: problems[-1] == "")
    thread.finish()
    assert answers == [[]]
    assert "is full or failing" in problems[0]
