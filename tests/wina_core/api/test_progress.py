"""Progress and messages on stderr."""

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from wina_core.api import progress
from wina_core.api.progress import Interruption, TerminalReporter, terminal_reporter
from wina_core.jobs import Progress as ProgressEvent


def test_without_a_terminal_progress_is_a_line_every_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    console = Console(file=io.StringIO(), width=40)
    reporter = TerminalReporter(Progress(console=console, disable=True), Interruption())
    for second in range(0, 95, 5):
        clock[0] = float(second)
        reporter.progress(second, 1000, "steps", "basis 1 of 9: expected KL 0.00205")
    told = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # a StringIO
    assert [line.split(" steps")[0] for line in told] == [
        f"basis 1 of 9: expected KL 0.00205: {second} of 1,000" for second in (30, 60, 90)
    ]


def test_the_remaining_time_is_that_of_the_named_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    console = Console(file=io.StringIO(), width=40)
    reporter = TerminalReporter(Progress(console=console, disable=True), Interruption())
    reporter.stage("loading")
    for second in (0.0, 30.0):
        clock[0] = second
        reporter.progress(second, 60, "bytes", "reading weights")
    clock[0] = 60.0
    event = ProgressEvent(job_id="1", done=0.5, total=2, unit="points", eta_seconds=75.0, metric="wina, 50 %")
    reporter.follow(event)
    told = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # a StringIO
    assert told == ["loading: reading weights: 30 of 60 bytes, 0:30 left", "wina, 50 %: 0.5 of 2 points, 1:15 left"]


def test_what_an_engine_says_controls_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    said, screen = "\x1b]0;title\x07 [/red] \x9b2J", io.StringIO()
    console = Console(file=screen, force_terminal=True, width=200, color_system=None)
    monkeypatch.setattr(progress, "Console", lambda **_: console)
    with terminal_reporter() as reporter:
        reporter.log("warning", said)
        reporter.progress(1, 2, "steps", said)
    assert screen.getvalue().count("]0;title") >= 2
    assert not any(control in screen.getvalue() for control in ("\x1b]0;", "\x07", "\x9b"))
