"""Results file of an element: the events of its runs as JSON lines, on a file system that machines share.

Its lines are those of spill files (`store.spill`). One element writes it, each result in one piece that is on the disk
before the next one is computed. Others read whole lines from an offset on.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from wina_core.errors import WinaError
from wina_core.store.spill import Recorded, Waiting, line_of, message_of


class ResultsFile:
    """Results file of this process's element, which continues where an earlier process stopped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        self._file = os.open(path, flags, 0o600)
        self._repair()

    def _repair(self) -> None:
        """Cut off a last line whose writer was killed."""
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._file, whole)
            os.fsync(self._file)

    def messages(self) -> Iterator[Recorded]:
        """Yield what is written, without lines that cannot be read."""
        for line in self.path.read_bytes().splitlines():
            with suppress(ValidationError):
                yield message_of(line).message

    def write(self, message: Recorded) -> None:
        """Append a message; it is on the disk when this returns."""
        line = line_of(message, time.time())
        while line:
            line = line[os.write(self._file, line) :]
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def parse_lines(text: str) -> Iterator[Waiting]:
    """Yield the messages of lines. Raises WinaError for a line that is none."""
    for line in text.encode().splitlines():
        try:
            yield message_of(line)
        except ValidationError as error:
            raise WinaError("a line of its results file is malformed") from error
