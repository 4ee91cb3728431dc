"""Signals that end the window reach Qt's event loop."""

import signal
import sys

import pytest
from wina_app.services.ending_signals import EndingSignals

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no SIGHUP")


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


def test_the_handlers_from_before_come_back(qapp):  # noqa: ARG001 - as above
    before = signal.getsignal(signal.SIGTERM)
    signals = EndingSignals()
    assert signal.getsignal(signal.SIGTERM) is not before
    signals.stop()
    assert signal.getsignal(signal.SIGTERM) is before


def test_nohup_is_respected(qapp):  # noqa: ARG001 - as above
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signals = EndingSignals()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    signals.stop()
    signal.signal(signal.SIGHUP, before)
