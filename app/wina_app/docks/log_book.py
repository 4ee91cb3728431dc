"""Lines of the log, all together and by job."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

LIMIT = 5_000
"""Lines kept in total; the log files keep more."""
JOB_LIMIT = 1_000
"""Lines kept for one job."""


class LogLine(NamedTuple):
    """One record; its text may have several lines itself."""

    created: float
    """Seconds since the epoch."""
    level: int
    """As in the logging module."""
    source: str
    text: str
    job: str = ""
    """The job's id; empty for none."""

    def passes(self, level: int, text: str) -> bool:
        """Return whether it has at least this level and contains this lower-case text."""
        return self.level >= level and text in f"{self.source} {self.text}".lower()


class LogBook:
    """The latest lines; a job keeps its own even where newer lines of others have displaced them."""

    def __init__(self) -> None:
        self._lines: deque[LogLine] = deque(maxlen=LIMIT)
        self._by_job: dict[str, deque[LogLine]] = {}

    def add(self, line: LogLine) -> None:
        """Add a line."""
        self._lines.append(line)
        if line.job:
            self._by_job.setdefault(line.job, deque(maxlen=JOB_LIMIT)).append(line)

    def of(self, job: str = "") -> Iterable[LogLine]:
        """Return a job's lines, or all."""
        return self._by_job.get(job, ()) if job else self._lines

    def forget(self, job: str) -> None:
        """Drop the lines that are kept for one job."""
        self._by_job.pop(job, None)

    def clear(self) -> None:
        """Forget everything."""
        self._lines.clear()
        self._by_job.clear()
