"""The log of the window as a file."""

from contextlib import suppress
from logging import LogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path

_LOG_BYTES = 2 * 2**20


class LogFile(RotatingFileHandler):
    """A rotating log file that ignores write errors, since the Log dock has the lines too."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)

    def handleError(self, record: LogRecord) -> None:
        """Do nothing: a traceback for each line on stderr would not help."""

    def close(self) -> None:
        """Close the file, even if its last lines cannot be written."""
        with suppress(OSError):
            super().close()
