"""The store's thread: when the database cannot be opened, and how often it tells that something was stored."""

import pytest
from wina_app.services.store_thread import Pace, StoreThread

from wina_core.errors import WinaError


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


def test_the_last_of_many_changes_is_told_too(qtbot, tmp_path, monkeypatch):
    monkeypatch.setattr("wina_app.services.store_thread.CHANGED_SECONDS", 0.05)
    seen = []
    thread = StoreThread(str(tmp_path / "results.sqlite"))
    written = []
    thread.changed.connect(lambda: seen.append(len(written)))
    thread.start()
    for number in range(5):
        thread.write(lambda _store, number=number: written.append(number), seen.append)
        qtbot.wait(5)
    qtbot.waitUntil(lambda: seen[-1:] == [5])
    thread.finish()
