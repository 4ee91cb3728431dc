"""What the command line says on the way."""

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from wina_core.cli import terminal
from wina_core.cli.terminal import Interruption, TerminalReporter


def test_without_a_terminal_progress_is_a_line_every_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: clock[0])
    console = Console(file=io.StringIO(), width=40)
    reporter = TerminalReporter(Progress(console=console, disable=True), Interruption())
    for second in range(0, 95, 5):
        clock[0] = float(second)
        reporter.progress(second, 1000, "steps", "basis 1 of 9: expected KL 0.00205")
    told = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # a StringIO
    assert [line.split(" steps")[0] for line in told] == [
        f"basis 1 of 9: expected KL 0.00205: {second} of 1,000" for second in (30, 60, 90)
    ]
