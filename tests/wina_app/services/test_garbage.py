"""Garbage is collected on the main thread alone, whichever thread makes it."""

import gc
import threading

import pytest
from PySide6.QtCore import QObject
from wina_app.services.garbage import GarbageCollector

MANY = 20_000
"""Far more than the automatic collector leaves alone."""


class Cyclic:
    """Garbage that remembers the thread on which it was collected."""

    threads: list[threading.Thread] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        self.threads.append(threading.current_thread())


@pytest.fixture
def _collector(qapp):  # noqa: ARG001 - timers need an application
    parent = QObject()
    made = GarbageCollector(parent)
    yield made
    made.stop()
    assert gc.isenabled()


@pytest.mark.usefixtures("_collector")
def test_a_worker_thread_never_collects(qtbot):
    Cyclic.threads.clear()

    def work() -> None:
        for _ in range(MANY):
            Cyclic()

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert Cyclic.threads == []
    qtbot.waitUntil(lambda: len(Cyclic.threads) == MANY)
    assert set(Cyclic.threads) == {threading.main_thread()}
