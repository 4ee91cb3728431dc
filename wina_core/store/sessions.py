"""Sessions of programs that use a database, by which runs of a dead program are found.

Each open store holds a lock on a file of its own, beside the database, or in the data folder for one on a server. A
session whose file is unlocked is dead: no process numbers, which are reused, and no clocks.
"""

import getpass
import socket
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path

from sqlalchemy import URL

from wina_core.files import paths
from wina_core.files.locks import FileLock
from wina_core.store.connection import sqlite_file

QUEUED_ELSEWHERE = "array:"
"""Beginning of the owners of runs that wait or run in a cluster's queue, whatever program submitted them."""


class Sessions:
    """The sessions of one database, and this process's own. `starting` must be held during `living` and `begin`."""

    def __init__(self, folder: Path, scope: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.scope = scope
        """Prefix of the names: empty if the folder is beside the database, else the names of machine and folder, since
        the sessions of other machines cannot be checked from here."""
        self.starting = FileLock(folder / "starting")
        """Held while a store opens: one at a time makes, upgrades and tidies the database."""
        self._own: FileLock | None = None

    def living(self) -> tuple[str, ...]:
        """Return the names of the open sessions, and remove the files of dead ones."""
        names = []
        for file in sorted(self.folder.glob("*.session")):
            # A lock that is free belongs to no process: its program died without deleting the file.
            lock = FileLock(file)
            if lock.acquire():
                lock.release()
                file.unlink(missing_ok=True)
            else:
                names.append(self.scope + file.stem)
        return tuple(names)

    def begin(self) -> str:
        """Open this store's own session and return its name."""
        name = uuid.uuid4().hex
        self._own = FileLock(self.folder / f"{name}.session")
        self._own.acquire()
        return self.scope + name

    def end(self) -> None:
        if self._own is not None:
            self._own.release()
            with suppress(OSError):  # on a disk that became read-only the next start removes it
                self._own.path.unlink(missing_ok=True)
            self._own = None


def sessions_of(url: URL) -> Sessions:
    folder = session_folder(url)
    return Sessions(folder, scope="" if sqlite_file(url) else f"{socket.gethostname()}:{_name_of(folder)}:")


def _name_of(folder: Path) -> str:
    """Return a name that is unique to the folder: users and containers may share the name of a machine."""
    file = folder / "name"
    folder.mkdir(parents=True, exist_ok=True)
    # Two programs may be the first at the same time.
    with FileLock(folder / "naming"):
        if not file.exists():
            file.write_text(uuid.uuid4().hex)
        return file.read_text()


def session_folder(url: URL) -> Path:
    """Return the folder of the sessions' files: beside the database if it is a file, else in the data folder."""
    file = sqlite_file(url)
    return paths.data_folder() / "sessions" if file is None else file.with_name(f"{file.name}.sessions")


@cache
def program_identity() -> dict[str, str]:
    """Return the columns of `tables.RunTable` on who computes, and on which computer."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in some containers
        user = ""
    return {"user": user, "host": socket.gethostname()}
