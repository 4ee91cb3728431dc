"""What the window and its engines have to say, all together and job by job."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

LIMIT = 5_000
"""Lines kept of all together; the log files keep more."""
JOB_LIMIT = 1_000
"""Lines kept of one job."""


class LogLine(NamedTuple):
    """One record; its text may have several lines itself."""

    created: float
    """Seconds since the epoch."""
    level: int
    """As in the logging module."""
    source: str
    text: str
    job: str = ""
    """The id of the job that it is about; empty for none."""

    def passes(self, level: int, wanted: str) -> bool:
        """Whether it is of this level or a graver one, and holds this text, in small letters."""
        return self.level >= level and wanted in f"{self.source} {self.text}".lower()


class LogBook:
    """The latest lines: of a job more than are left of it among those of all."""

    def __init__(self) -> None:
        self._lines: deque[LogLine] = deque(maxlen=LIMIT)
        self._by_job: dict[str, deque[LogLine]] = {}

    def add(self, line: LogLine) -> None:
        """Keep a line."""
        self._lines.append(line)
        if line.job:
            self._by_job.setdefault(line.job, deque(maxlen=JOB_LIMIT)).append(line)

    def of(self, job: str = "") -> Iterable[LogLine]:
        """A job's lines, or all."""
        return self._by_job.get(job, ()) if job else self._lines

    def forget(self, job: str) -> None:
        """Keep no more of a job than there is among the lines of all."""
        self._by_job.pop(job, None)

    def clear(self) -> None:
        """Forget everything."""
        self._lines.clear()
        self._by_job.clear()
