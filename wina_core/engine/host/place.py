"""The background host of a database: a lock that it holds while it lives, and a file with its address.

The operating system releases the lock however the host dies, so that a database never has two background hosts, and a
dead one is never waited for.
"""

import hashlib
import os
from pathlib import Path

from pydantic import ValidationError

from wina_core.files import paths
from wina_core.files.locks import FileLock
from wina_core.jobs import Message
from wina_core.store.connection import parse_url, place_of, sqlite_file
from wina_core.store.sessions import session_folder


class Address(Message):
    """A port on this machine, and the word that its clients say first."""

    port: int
    token: str


class Place:
    """The place of a database's background host."""

    def __init__(self, database: str | Path | None) -> None:
        """Find the place; `database` is an SQLAlchemy URL or an SQLite file, None the default."""
        self.url = parse_url(paths.database() if database is None else database)
        folder = session_folder(self.url)
        folder.mkdir(parents=True, exist_ok=True)
        name = "background"
        if sqlite_file(self.url) is None:  # the folder is shared by databases
            name += f"-{hashlib.sha256(place_of(self.url).encode()).hexdigest()[:16]}"
        self.lock = FileLock(folder / f"{name}.lock")
        self._file = folder / f"{name}.json"

    def announce(self, address: Address) -> None:
        """Write the address for this user alone; the caller holds the lock."""
        self._file.unlink(missing_ok=True)
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(address.model_dump_json())

    def withdraw(self) -> None:
        """Remove the address and release the lock."""
        self._file.unlink(missing_ok=True)
        self.lock.release()

    def find(self) -> Address | None:
        """Return the address of the living background host; None if there is none."""
        if not self._file.is_file():
            return None
        if self.lock.acquire():  # it died
            self.withdraw()
            return None
        try:
            return Address.model_validate_json(self._file.read_bytes())
        except (OSError, ValidationError):  # it is ending, or just beginning
            return None
