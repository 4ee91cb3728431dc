"""What the window does with its process: imports, signals, garbage, memory and its log file."""

import gc
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from wina_app.services.process import EndingSignals, GarbageCollector, LogFile, limit_memory

from wina_core.files.hardware import MEMORY_VARIABLE, memory_limit

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import inspect
from PySide6.QtCore import QObject
from wina_app.services.process import skip_feature_scan
skip_feature_scan()
read = []
inspect.getsource = lambda module: read.append(module.__name__) or ""
import colorsys, wina_app.style.stylesheet
print(read, QObject().objectName() == "", hasattr(QObject, "object_name"))
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no SIGHUP")

MANY = 20_000
"""Far more than the automatic collector leaves alone."""


def test_no_source_is_read_for_the_features_of_pyside():
    environment = {"PYTHONPATH": f"{ROOT / 'app'}:{ROOT}"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.returncode) == ("[] True False", 0), done.stderr


@pytest.fixture
def watch(qapp):  # noqa: ARG001 - a notifier needs an application
    before = signal.getsignal(signal.SIGHUP)
    if before == signal.SIG_IGN:  # the tests run under nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signals = EndingSignals()
    yield signals
    signals.stop()
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_arrives_while_qt_waits(watch, qtbot, number):
    with qtbot.waitSignal(watch.received) as arrived:
        signal.raise_signal(number)
    assert arrived.args == [number]


def test_nohup_is_respected(qapp):  # noqa: ARG001 - as above
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signals = EndingSignals()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    signals.stop()
    signal.signal(signal.SIGHUP, before)


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


@pytest.mark.parametrize(
    ("given", "chosen", "limit"),
    [("", "", None), ("", "8GB", 8e9), ("4GB", "8GB", 4e9), ("4GB", "", 4e9)],
    ids=["none", "the settings'", "from outside", "from outside alone"],
)
def test_a_limit_from_outside_counts_before_that_of_the_settings(monkeypatch, given, chosen, limit):
    monkeypatch.setenv(MEMORY_VARIABLE, given)
    assert limit_memory(chosen) == given
    assert memory_limit() == limit
    assert os.environ[MEMORY_VARIABLE] == (given or chosen), "engines inherit it"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full here")
def test_a_full_disk_costs_the_lines_alone(tmp_path, capsys):
    (tmp_path / "window.log").symlink_to("/dev/full")
    handler, log = LogFile(tmp_path / "window.log"), logging.Logger("of this test")
    log.addHandler(handler)
    for number in range(3):
        log.warning("line %d", number)
    handler.close()
    assert capsys.readouterr().err == ""
