"""Progress on stderr while a job runs, and the signals that cancel it."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from wina_core.compute.reporter import Level, NullReporter
from wina_core.errors import Cancelled, Terminated, ending_signals, without_controls
from wina_core.jobs import Progress as ProgressEvent
from wina_core.jobs.progress import Stage, StageEta

_SILENCE = 30.0
"""Seconds between two lines of progress where no line can be rewritten."""


CANCELLING = "Cancelling at the next batch; press Ctrl-C again to stop at once."


class Interruption:
    """The first signal that asked this program to end; a second one ends it at once.

    `in_library`, where another program such as a notebook computes, a second Ctrl-C raises KeyboardInterrupt. A second
    SIGHUP never ends it: the kernel and the shell both send one when a terminal is closed.
    """

    def __init__(self, answer: str = CANCELLING, *, in_library: bool = False) -> None:
        self._answer, self._in_library = answer, in_library
        self.error: Cancelled | None = None
        """Cancelled after Ctrl-C, Terminated after another signal."""

    def on_signal(self, number: int, _frame: FrameType | None = None) -> None:
        """Take a signal."""
        if self.error is None:
            self.error = Cancelled() if number == signal.SIGINT else Terminated(number)
            _print(f"\n{self._answer}")
        elif number == signal.SIGINT and self._in_library:
            raise KeyboardInterrupt
        elif number in (signal.SIGINT, signal.SIGTERM):
            os._exit(128 + number)


def _print(text: str) -> None:
    """Print on stderr."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:  # the terminal is gone: all later output would fail too
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


class TerminalReporter(NullReporter):
    """Reporter that shows progress and remaining time in one line on stderr, with log lines above it.

    Where stderr is no terminal, it prints progress every half minute, warnings and errors.
    """

    def __init__(self, progress: Progress, interruption: Interruption) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=None, left="")
        self._interruption = interruption
        self._eta = StageEta()
        self._printed = time.monotonic()
        self.time_left: Callable[[float], float | None] | None = None
        """Remaining seconds of an evaluation after some measurements; None for any other job."""

    def start(self, machines: Sequence[str]) -> None:
        """Name the machines on which engines start, until there is progress."""
        self._progress.update(self._task, description=f"starting on {', '.join(machines)}")

    def stage(self, name: Stage) -> None:
        self._eta.begin(name)

    def progress(self, done: float, total: float | None, unit: str, metric: str = "") -> None:
        if self.time_left is not None:
            left, stage = self.time_left(done), ""  # the metric names it
        else:
            left, stage = self._eta.update(time.monotonic(), done, total), self._eta.stage
        self.follow(
            ProgressEvent(job_id="", done=done, total=total, unit=unit, eta_seconds=left, metric=metric, stage=stage)
        )

    def follow(self, event: ProgressEvent) -> None:
        """Show progress whose remaining time is known already."""
        now, left, done, total = time.monotonic(), event.eta_seconds, event.done, event.total
        unit, metric = without_controls(event.unit), without_controls(event.label)  # an engine's on another machine
        so_far = f"{_count(done)} {unit}" if unit else "waiting"
        counted = f"{_count(done)} of {_count(total)} {unit}" if total else so_far
        text = f"{counted}, {duration(left)} left" if left is not None else counted
        self._progress.update(self._task, description=metric or unit, completed=done, total=total, left=text)
        if not self._progress.console.is_terminal and now - self._printed >= _SILENCE:
            self._printed = now
            self._progress.console.print(f"{metric or unit}: {text}", markup=False, highlight=False, soft_wrap=True)

    def log(self, level: Level, text: str) -> None:
        if level in ("warning", "error") or self._progress.console.is_terminal:
            self._progress.console.print(without_controls(text), markup=False, highlight=False)

    def check(self) -> None:
        if self.stopped is not None:
            raise self.stopped

    @property
    def stopped(self) -> Cancelled | None:
        """The cancellation that a signal requested."""
        return self._interruption.error


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.1f}"


def duration(seconds: float) -> str:
    """Return a time as minutes and seconds, such as 2:05, with hours before them where it has any."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


@contextmanager
def terminal_reporter(answer: str = CANCELLING, *, in_library: bool = False) -> Iterator[TerminalReporter]:
    """Yield a reporter that Ctrl-C, SIGTERM and SIGHUP cancel at the next batch; only in the main thread.

    `answer` is printed at the first one. A second Ctrl-C or SIGTERM ends the process; `in_library`, Ctrl-C raises
    KeyboardInterrupt.
    """
    console = Console(stderr=True)
    interruption = Interruption(answer, in_library=in_library)
    description, left = (TextColumn(f"{{task.{name}}}", markup=False) for name in ("description", "fields[left]"))
    numbers = ending_signals() if threading.current_thread() is threading.main_thread() else []
    before = {number: signal.signal(number, interruption.on_signal) for number in numbers}
    try:
        with Progress(
            SpinnerColumn(),
            description,
            BarColumn(),
            left,
            console=console,
            transient=True,
            disable=not console.is_terminal,
        ) as progress:
            yield TerminalReporter(progress, interruption)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


library_reporter = partial(terminal_reporter, in_library=True)
"""Reporter of the public functions, which another program calls."""
