"""Spill files: messages that wait on disk until the database can store them.

A spill file is text: a line that names its database, then one line of JSON for each message. It is written whole or
not at all. Beside the database it belongs to it by its name; elsewhere by the path in its first line too. A lock beside
the file keeps other processes away from it while one holds its messages in memory.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError
from sqlalchemy import URL

from wina_core.errors import WinaError, explain
from wina_core.files import paths
from wina_core.files.locks import FileLock
from wina_core.files.tables import write_atomically
from wina_core.jobs import (
    CompletionFinished,
    Done,
    Failed,
    Measured,
    Message,
    Partial,
    Ready,
    Result,
    RunFailed,
    RunStarted,
    Submit,
    encode,
)
from wina_core.store.connection import place_of, sqlite_file

LARGEST_SPILL = 2**28
"""Most bytes of a spill file that is read; the largest that is written has a quarter of it and one message."""

Recorded = Submit | Ready | RunStarted | Partial | Measured | CompletionFinished | RunFailed | Result | Failed | Done
"""A message that the recorder of a job needs."""
RECORDED = (Submit, Ready, RunStarted, Partial, Measured, CompletionFinished, RunFailed, Result, Failed, Done)


class Waiting(Message):
    """A message and the time, in seconds since 1970, at which it came."""

    at: float
    message: Annotated[Recorded, Field(discriminator="type")]


class _Heading(Message):
    """The first line of a spill file."""

    wina_spill: Literal[1] = 1
    database: str


class Spill:
    """A spill file that this process holds."""

    def __init__(self, path: Path, database: str, lock: FileLock) -> None:
        self.path = path
        self._database = database
        """Identity of the database; empty for a file that belongs to it by its name."""
        self._lock = lock

    def read(self) -> list[bytes]:
        """Return the lines of all messages, each of which is valid. Raises WinaError for a damaged file."""
        try:
            if self.path.stat().st_size > LARGEST_SPILL:
                raise WinaError(f"it is larger than {LARGEST_SPILL // 2**20} MiB")
            heading, *lines = self.path.read_bytes().splitlines(keepends=True) or [b""]
            named = _Heading.model_validate_json(heading).database
            if self._database not in ("", named):
                raise WinaError(f"it belongs to the database {named}")
            for line in lines:
                Waiting.model_validate_json(line)
        except ValidationError as error:
            raise WinaError(explain(error).removesuffix(".")) from error
        except OSError as error:
            raise WinaError(str(error.strerror)) from error
        return lines

    def remove(self) -> None:
        """Delete the file, whose messages are stored."""
        with suppress(OSError):  # storing it once more would change nothing
            self.path.unlink()
        self.release()

    def set_aside(self) -> Path:
        """Rename a file that cannot be stored, so that it is not tried again, and return its new path."""
        aside = self.path.with_suffix(".damaged")
        try:
            self.path.replace(aside)
        except OSError:  # on a read-only disk
            aside = self.path
        self.release()
        return aside

    def release(self) -> None:
        """Leave the file to other processes."""
        with suppress(OSError):  # a folder that became read-only keeps an empty file
            self._lock.path.unlink(missing_ok=True)
        self._lock.release()


def message_of(line: bytes) -> Waiting:
    """Return the message of a line."""
    return Waiting.model_validate_json(line)


def line_of(message: Recorded, at: float) -> bytes:
    """Return a message as a line."""
    return encode(Waiting(at=at, message=message)).encode()


def write_spill(url: URL, name: str, lines: Iterable[bytes]) -> Spill:
    """Write lines to a new spill file of a database, in the first folder that takes it, and hold the file.

    `name` is unique, and the files of one process sort by it.

    The folders are the database's own, then those of `paths.fallback_folders`. Raises WinaError if none takes it.
    """
    content = b"".join((encode(_Heading(database=_identity(url))).encode(), *lines))
    refusal: OSError | WinaError = WinaError("No folder takes a file.")
    for folder, prefix, database in _places(url):
        path = folder / f"{prefix}{name}.jsonl"
        lock = FileLock(path.with_suffix(".lock"))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
            write_atomically(path, content, private=True)
        except (OSError, WinaError) as error:
            refusal = error
            with suppress(OSError):
                lock.path.unlink(missing_ok=True)
            lock.release()
        else:
            return Spill(path, database, lock)
    raise WinaError(f"What could not be stored is lost, since no folder takes it: {refusal}") from refusal


def find_spills(url: URL) -> Iterator[Spill]:
    """Yield the spill files of a database that no living process holds, and hold each of them."""
    found = [
        (path.name, path, database)
        for folder, prefix, database in _places(url)
        for path in folder.glob("*.jsonl")
        if path.name.startswith(prefix) and _is_own(path)
    ]
    for _, path, database in sorted(found):
        lock = FileLock(path.with_suffix(".lock"))
        try:
            free = lock.acquire()
        except OSError:  # a read-only folder
            continue
        if free and path.exists():
            yield Spill(path, database, lock)
        elif free:  # stored by another process meanwhile
            lock.release()


def _places(url: URL) -> Iterator[tuple[Path, str, str]]:
    """Yield folders of spill files with the beginning of their names and the identity to check."""
    identity = _identity(url)
    if file := sqlite_file(url):
        yield file.parent, f"{file.name}.waiting-", ""
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    for folder in paths.fallback_folders():
        yield folder, f"results-{digest}.waiting-", identity


def _identity(url: URL) -> str:
    file = sqlite_file(url)
    return str(file.resolve()) if file else place_of(url)


def _is_own(path: Path) -> bool:
    """Return whether a path is a file of this user: in a shared folder others could leave files for us."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and (os.name == "nt" or found.st_uid == os.geteuid())
