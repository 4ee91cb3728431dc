"""The window's log as a file, which outlives the window."""

from contextlib import suppress
from logging import LogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path

_LOG_BYTES = 2 * 2**20


class LogFile(RotatingFileHandler):
    """A disk that is full costs the lines that it does not take and nothing else; the Log dock has them too."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)

    def handleError(self, record: LogRecord) -> None:
        """A traceback for each line on stderr would help nobody."""

    def close(self) -> None:
        """Let go of the file, even if its last lines cannot be written."""
        with suppress(OSError):
            super().close()
