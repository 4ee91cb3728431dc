"""Events of a kept engine, on disk until the bridge has acknowledged them."""

import os
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Literal

from wina_core.errors import WinaError
from wina_core.jobs import encode
from wina_core.remote.engine.frames import Frame, parse, read_lines

FULL_DISK_SECONDS = 5.0
"""Interval of trying again to write to a full disk; the engine waits meanwhile."""


class Spool:
    """File of numbered frames, among lines that name their bridge. Its methods may be called by any thread."""

    def __init__(self, path: Path) -> None:
        """Open the file, with the frames of a keeper that died."""
        self.changed = threading.Condition()
        """Notified for each new frame."""
        self.client = ""
        """The bridge whose requests led to the frames."""
        self.before = 0
        """Number of the last frame of earlier bridges."""
        self.ended = False
        """True if the bridge's last frame is its engine's end."""
        self.last = 0
        """Number of the last frame."""
        self._path = path
        self._adding = threading.Lock()
        """Held for the time of one addition, waits for space included."""
        self._kept: deque[tuple[int, int, int]] = deque()
        """(number, offset, bytes) of each frame that is not acknowledged."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._size = 0
        self._recover()

    @property
    def first(self) -> int:
        """Number of the first frame that is kept, or will be."""
        with self.changed:
            return self._kept[0][0] if self._kept else self.last + 1

    def add(self, kind: Literal["event", "log", "exit"], text: str) -> None:
        """Append a frame; on a full disk, wait for space."""
        with self._adding:
            frame = Frame(kind=kind, n=self.last + 1, text=text)
            while not self._try_add(frame):
                time.sleep(FULL_DISK_SECONDS)

    def _try_add(self, frame: Frame) -> bool:
        with self.changed:
            offset = self._size
            try:
                self._append(frame)
            except OSError:
                return False
            self._kept.append((frame.n, offset, self._size - offset))
            self.last, self.ended = frame.n, frame.kind == "exit"
            self.changed.notify_all()
            return True

    def read(self, n: int) -> bytes:
        """Return the line of a kept frame."""
        with self.changed:
            _, offset, size = self._kept[n - self._kept[0][0]]
            return os.pread(self._file, size, offset)

    def acknowledge(self, n: int) -> None:
        """Drop all frames up to a number; the file is emptied once none is left."""
        with self.changed:
            self.last = max(self.last, n)  # after a power failure the file may lack frames that were delivered
            while self._kept and self._kept[0][0] <= n:
                self._kept.popleft()
            if not self._kept and self._size:
                with suppress(OSError):  # they would be delivered again, which the bridge notices
                    os.ftruncate(self._file, 0)
                    self._size = 0
                    self._append(self._header)

    def take_over(self, client: str) -> None:
        """Give what is kept, and all that follows, to another bridge."""
        with self.changed:
            self.client, self.before, self.ended = client, self.last, False
            with suppress(OSError):  # only the next keeper needs it, which else ends this bridge's engine
                self._append(self._header)

    def remove(self) -> None:
        """Delete the file, which has nothing that is not delivered."""
        with self.changed:
            os.close(self._file)
            self._path.unlink(missing_ok=True)

    @property
    def _header(self) -> Frame:
        """The line that names the bridge and the last number so far."""
        return Frame(kind="ack", n=self.last, text=self.client)

    def _append(self, frame: Frame) -> None:
        line = encode(frame).encode()
        written = 0
        while written < len(line):
            written += os.pwrite(self._file, line[written:], self._size + written)
        self._size += len(line)

    def _recover(self) -> None:
        """Find the frames in the file; what follows a damaged line is dropped."""
        with open(self._path, "rb") as file, suppress(WinaError):
            for line in read_lines(file):
                frame = parse(Frame, line)
                if frame.kind != "ack":
                    self._kept.append((frame.n, self._size, len(line)))
                elif frame.text != self.client:
                    self.client, self.before = frame.text, frame.n
                self.last, self.ended = frame.n, frame.kind == "exit"
                self._size += len(line)
        os.ftruncate(self._file, self._size)
