"""Signals that end the command line."""

import signal
import sys

import pytest

from tests.wina_core.conftest import Wina
from wina_core import cli
from wina_core.api import progress
from wina_core.api.progress import Interruption
from wina_core.errors import Cancelled, Terminated, ending_signals

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no SIGHUP")


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Exit codes of `os._exit`, which only notes them."""
    found: list[int] = []
    monkeypatch.setattr(progress.os, "_exit", found.append)
    return found


def test_a_second_signal_ends_the_process_but_not_a_notebook_nor_of_a_closed_terminal(exits: list[int]) -> None:
    interrupted = Interruption()
    interrupted.on_signal(signal.SIGINT)
    assert type(interrupted.error) is Cancelled
    in_notebook = Interruption(in_library=True)
    in_notebook.on_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        in_notebook.on_signal(signal.SIGINT)
    closed = Interruption()
    for _ in range(2):  # the kernel and the shell both send one
        closed.on_signal(signal.SIGHUP)
    assert isinstance(closed.error, Terminated)
    assert not exits
    interrupted.on_signal(signal.SIGTERM)
    assert exits == [128 + signal.SIGTERM]


def test_nohup_is_respected() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert ending_signals() == [signal.SIGINT, signal.SIGTERM]
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (Cancelled(), 130, "same command continues"),
        (Terminated(signal.SIGTERM), 143, "same command continues"),
        (MemoryError(), 1, "Memory ran out"),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), 1, "The library torch cannot be loaded"),
    ],
)
def test_an_end_that_is_no_programs_fault_is_one_sentence_and_an_exit_code(
    wina: Wina, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, sentence: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    assert sentence in wina.fails(code)
