"""Connections to the database: SQLite set up for several processes at once, and its errors in the user's words."""

import errno
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import URL, Connection, Engine, NullPool, StaticPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from wina_core.errors import WinaError, explain
from wina_core.store.column_types import CellError
from wina_core.store.faults import first_fault

BUSY_SECONDS = 30.0
"""Longest wait for another process's write; a write takes milliseconds."""
_FULL = "The disk that holds {place} is full or failing; free some space and try again, stored results are safe."


class UnwritableError(WinaError):
    """Refusal of a write that may succeed later: a full, failing or read-only disk, a locked or distant database."""


def parse_url(place: str | Path) -> URL:
    """Return the URL of a database, or of an SQLite file where `place` has no "://". Raises WinaError for a bad URL."""
    if isinstance(place, Path) or "://" not in place:
        return URL.create("sqlite", database=str(Path(place).expanduser()))
    try:
        url = make_url(place)
        if "plugin" in url.query:
            raise ArgumentError("a plugin is code")
        url.get_dialect()
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise WinaError(
            f"{place!r} is not a database that can be opened here; give an SQLAlchemy URL such as "
            "sqlite:////home/me/results.sqlite, and install its driver if it has one."
        ) from error
    return url


def sqlite_file(url: URL) -> Path | None:
    """Return the file of an SQLite URL; None for one in memory and for other databases."""
    in_memory = url.database in (None, "", ":memory:")
    return None if url.get_backend_name() != "sqlite" or in_memory else Path(str(url.database)).absolute()


def open_engine(
    url: URL, *, foreign_keys: bool = True, connect: Callable[[], sqlite3.Connection] | None = None
) -> Engine:
    """Return an engine that has not touched the database yet; `connect` opens a connection for each use of it.

    SQLite: foreign keys are enforced, writers wait for each other, and a transaction takes the write lock at its
    start when the connection has the option `writing`, because a reader that turns into a writer under WAL is
    refused at once when somebody else wrote in between.
    """
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(url, pool_pre_ping=True)
        except ModuleNotFoundError as error:
            raise WinaError(
                f"The results database {url.render_as_string(hide_password=True)} needs the Python package "
                f"{error.name}, which is not installed; install it, or name another database."
            ) from error
    arguments: dict[str, Any] = {"timeout": BUSY_SECONDS, "check_same_thread": False}
    if connect is not None:
        engine = create_engine(url, creator=connect, poolclass=NullPool)
    elif sqlite_file(url) is None:
        engine = create_engine(url, connect_args=arguments, poolclass=StaticPool)
    else:
        engine = create_engine(url, connect_args=arguments)

    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # BEGIN is ours to send, see below
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
        connection.execute("PRAGMA temp_store = MEMORY")  # a sorted answer must not need a disk with space

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        patience = options.get("patience")
        seconds = BUSY_SECONDS if patience is None else patience
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {1000 * seconds:.0f}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writing", False) else "BEGIN")

    return engine


def use_wal(file: Path) -> None:
    """Let readers and a writer work at the same time. Folders on a network may refuse; all else works without."""
    with closing(sqlite3.connect(file, timeout=BUSY_SECONDS)) as connection:
        if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            connection.execute("PRAGMA journal_mode = WAL")


@contextmanager
def explained(url: URL) -> Iterator[None]:
    """Turn errors of a database that is opened, read or written into WinaError."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        cause = getattr(error, "orig", None) or error
        explanation = _explanation(str(cause), sqlite_file(url) or url.render_as_string(hide_password=True))
        if explanation is None:
            raise
        raise explanation from error
    except UnicodeEncodeError as error:
        raise WinaError(f"{error.object!r} has characters that no text can have; leave them out.") from error
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        # Content that no version has written, or a defect: the search finds which.
        file = sqlite_file(url)
        fault = first_fault(file) if file else ""
        if isinstance(error, ValidationError):
            fault = fault or explain(error).rstrip(".")
        if not fault and isinstance(error, CellError):
            fault = f"a {error} of its tables is out of range"
        if not fault:
            raise
        raise WinaError(damaged(file or url.render_as_string(hide_password=True), fault)) from error


def unwritable(file: object, error: OSError) -> UnwritableError:
    """Return the error for a database beside which a file cannot be made."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return UnwritableError(_FULL.format(place=file))
    return UnwritableError(
        f"The results database {file} cannot be written ({error.strerror}); make its folder writable or set "
        "WINA_DATABASE to a file elsewhere."
    )


def damaged(place: object, fault: str = "") -> str:
    """Return the sentence on a damaged database, with the damage if it is known."""
    known = f" ({fault})" if fault else ""
    return f"The results database {place} is damaged{known}; put one of the backups beside it in its place."


def _explanation(reason: str, place: object) -> WinaError | None:
    lower = reason.lower()
    if "not a database" in lower:
        return WinaError(f"{place} is not a results database; move it away or set WINA_DATABASE to another file.")
    if "could not decode" in lower:
        return WinaError(damaged(place, "it has text that is not UTF-8"))
    if "malformed" in lower or "no such table" in lower or "no such column" in lower:
        return WinaError(damaged(place))
    if "unable to open" in lower or "readonly" in lower:
        return UnwritableError(
            f"The results database {place} cannot be written; make its folder writable or set WINA_DATABASE to a "
            "file elsewhere."
        )
    if "disk is full" in lower or "disk i/o error" in lower:
        return UnwritableError(_FULL.format(place=place))
    if "locked" in lower:
        return UnwritableError(f"Another program keeps {place} locked; close it and try again.")
    if "could not connect" in lower or "connection" in lower:
        return UnwritableError(
            f"The results database {place} cannot be reached ({reason.splitlines()[0]}); check WINA_DATABASE."
        )
    return None
