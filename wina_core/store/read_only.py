"""Reading of an SQLite database that cannot be written, on a full or read-only disk."""

import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sqlalchemy import URL, Engine

from wina_core.store.connection import BUSY_SECONDS, open_engine

LARGEST_CELL = 2**26
"""Most bytes of a value that is read: one of a foreign file could fill the memory."""


def open_to_read(url: URL, file: Path, *, untouched: bool = False) -> Engine:
    """Return an engine that reads all that was committed to an SQLite file, without space on its disk.

    An `untouched` file keeps its bytes, too, where it can be read without moving its log into it.
    """
    return open_engine(url, connect=partial(connect_to_read, file, untouched=untouched))


def connect_to_read(file: Path, *, untouched: bool = False) -> sqlite3.Connection:
    """Return a connection of its own as `open_to_read`; sqlite3.OperationalError where the file cannot be read."""
    refusal = sqlite3.OperationalError("unable to open database file")
    for query, locking in _ways(file, untouched):
        connection = sqlite3.connect(
            f"{file.as_uri()}?{query}", uri=True, timeout=BUSY_SECONDS, check_same_thread=False
        )
        try:
            connection.execute(f"PRAGMA locking_mode = {locking}")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_CELL)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            connection.close()
            refusal = error
        else:
            return connection
    raise refusal


def _ways(file: Path, untouched: bool) -> Iterator[tuple[str, str]]:
    """Yield the query of the file's URI and the locking mode of each way to read it, the best first.

    In WAL mode SQLite makes a file of shared memory beside the database, for readers too. Where it cannot, a database
    without a write-ahead log can be read as immutable. One with a log needs an exclusive lock, under which the index of
    the log lies on the heap (https://sqlite.org/wal.html, sections 5 and 8).
    """
    if untouched:
        yield "mode=ro", "NORMAL"
    yield "mode=rw", "NORMAL"
    log = file.with_name(f"{file.name}-wal")
    if log.exists() and log.stat().st_size:
        yield "mode=rw", "EXCLUSIVE"
    else:
        yield "immutable=1", "NORMAL"
