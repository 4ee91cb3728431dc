"""A reporter for tests: keeps what it is given, and cancels."""

import math

from wina_core.compute.reporter import Level, NullReporter
from wina_core.errors import Cancelled
from wina_core.jobs.progress import Stage


class RecordingReporter(NullReporter):
    """Keep the progress (`calls`), the stages and the log (`lines`, "level: text"); cancel once `after` checks have
    passed."""

    def __init__(self, after: float = math.inf) -> None:
        self.after = after
        self.checks = 0
        self.calls: list[tuple[float, float | None, str, str]] = []
        self.stages: list[Stage] = []
        self.lines: list[str] = []

    def stage(self, name: Stage) -> None:
        if self.stages[-1:] != [name]:
            self.stages.append(name)

    def progress(self, done: float, total: float | None, unit: str, metric: str = "") -> None:
        self.calls.append((done, total, unit, metric))

    def log(self, level: Level, text: str) -> None:
        self.lines.append(f"{level}: {text}")

    def check(self) -> None:
        self.checks += 1
        if self.checks > self.after:
            raise Cancelled
