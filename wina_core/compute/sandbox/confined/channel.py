"""Lines of JSON between the two confined processes, each of a limited length."""

import json
import os
from typing import Any

MAX_MESSAGE_BYTES = 8 * 2**20
"""Bytes of one message; a longer one is refused by its sender and by its receiver."""


class BrokenMessageError(Exception):
    """A message that the other process may not send, or its end."""


class Channel:
    """Two pipes, one for each direction."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads = os.fdopen(reads, "rb")
        self._writes = writes
        self._write = os.write  # bound now: a program may change the module

    def send(self, message: list[Any]) -> None:
        """Write a message. Raises ValueError for values too large to cross, BrokenMessageError at the other's end."""
        try:
            line = json.dumps(message).encode() + b"\n"
        except RecursionError as error:
            raise ValueError("the values are nested too deeply to cross") from error
        if len(line) > MAX_MESSAGE_BYTES:
            raise ValueError("the values are too large to cross")
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._write(self._writes, rest) :]
        except OSError as error:
            raise BrokenMessageError from error

    def receive(self) -> list[Any]:
        """Wait for a message. Raises BrokenMessageError for anything else."""
        try:
            line = self._reads.readline(MAX_MESSAGE_BYTES + 1)
            message = json.loads(line.decode("ascii")) if line.endswith(b"\n") else None
        except (ValueError, OSError, RecursionError, MemoryError) as error:
            raise BrokenMessageError from error
        if not isinstance(message, list):
            raise BrokenMessageError
        return message
