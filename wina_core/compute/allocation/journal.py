"""A search's progress on disk, from which a cancelled or killed search resumes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from wina_core.compute import pausable_clock
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.files.tables import write_atomically
from wina_core.files.user_file import read_file


class Journal:
    """A JSON object in a file, replaced atomically at every step; in memory alone without a file.

    A digest of the file's name and the object comes first, so only what was written for the same question is read.
    """

    def __init__(self, file: Path | None, reporter: Reporter) -> None:
        self._file = file
        self._reporter = reporter
        self.state: dict[str, Any] = {} if file is None else self._read(file)
        self._start = pausable_clock.now() - float(self.state.get("seconds", 0.0))

    @property
    def seconds(self) -> float:
        """Seconds of the search, including time before an interruption."""
        return pausable_clock.now() - self._start

    def save(self, **changes: Any) -> None:
        """Change some entries, of finite numbers, and write them all; a full disk only loses the ability to resume."""
        self.state |= {**changes, "seconds": self.seconds}
        if self._file is None:
            return
        content = json.dumps(self.state, allow_nan=False).encode()
        try:
            write_atomically(self._file, _digest(self._file, content) + b"\n" + content)
        except WinaError as error:
            self._reporter.log("warning", f"The search could not be resumed if it ended now: {error}")
            self._file = None

    def _read(self, file: Path) -> dict[str, Any]:
        if not file.exists():
            return {}
        try:
            digest, _, content = read_file(file, "cache").partition(b"\n")
        except WinaError as error:
            self._reporter.log("warning", f"The search begins at the start. {error}")
            return {}
        if digest != _digest(file, content):
            self._reporter.log("warning", f"Searching from the start, {file} is damaged or of another search.")
            return {}
        state: dict[str, Any] = json.loads(content)
        return state


def _digest(file: Path, content: bytes) -> bytes:
    return hashlib.sha256(file.name.encode() + b"\n" + content).hexdigest().encode()
