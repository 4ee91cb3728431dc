"""The store's thread, when the database cannot be opened."""

import pytest
from wina_app.store_thread import StoreThread

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
