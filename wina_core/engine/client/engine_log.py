"""The log of an engine: a file and its last lines."""

import logging
import os
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO

from wina_core.errors import WinaError
from wina_core.files.paths import log_folder

TAIL_LINES = 40
"""Lines reported with a crash."""
LOG_BYTES = 5 * 2**20
"""Size at which the file is set aside when the next engine starts."""


class EngineLog:
    """The log of one engine process; may be written from several threads."""

    def __init__(self, path: Path) -> None:
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._file: IO[bytes] | None = None
        self.trouble = ""
        """Reason why there is no file; empty where there is one."""
        with suppress(OSError):
            if path.stat().st_size > LOG_BYTES:
                os.replace(path, path.with_suffix(".old.log"))
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            self.trouble = f"The engine's log file could not be opened: {error}."

    @property
    def tail(self) -> str:
        """The last lines."""
        return "\n".join(self._tail)

    def add(self, text: str) -> None:
        """Append lines."""
        self._tail.extend(text.splitlines())
        if self._file is not None:
            with suppress(OSError, ValueError):  # a full disk must not stop the engine, which waits to be read
                self._file.write(f"{text}\n".encode())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def default_log_file() -> Path:
    """Return the file in the log folder, the null device where there can be none: the engine works without."""
    try:
        return log_folder() / "engine.log"
    except WinaError as error:
        logging.getLogger(__name__).warning("The engine's log file could not be opened: %s", error)
        return Path(os.devnull)
