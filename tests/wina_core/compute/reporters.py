"""A reporter for tests: keeps what it is given, and cancels."""

import math

from wina_core.compute.reporter import Level, NullReporter
from wina_core.errors import Cancelled


class RecordingReporter(NullReporter):
    """Keep the progress (`calls`) and the log (`lines`, "level: text"); cancel once `after` checks have passed."""

    def __init__(self, after: float = math.inf) -> None:
        self.after = after
        self.checks = 0
        self.calls: list[tuple[float, float | None, str, str]] = []
        self.lines: list[str] = []

    def progress(self, done: float, total: float | None, unit: str, metric: str = "") -> None:
        self.calls.append((done, total, unit, metric))

    def log(self, level: Level, text: str) -> None:
        self.lines.append(f"{level}: {text}")

    def check(self) -> None:
        self.checks += 1
        if self.checks > self.after:
            raise Cancelled
