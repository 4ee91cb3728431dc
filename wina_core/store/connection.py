"""Connections to databases: SQLite set up for several processes at once, PostgreSQL, and errors in the user's words."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import URL, Connection, Engine, NullPool, StaticPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from wina_core.errors import WinaError, explain
from wina_core.store.postgres import is_postgres, normalized, open_postgres, without_password
from wina_core.store.refusals import damaged, explain_postgres, explain_sqlite
from wina_core.store.tables import CellError

BUSY_SECONDS = 60.0
"""Longest wait for another process's write, which takes milliseconds, or seconds while a database is merged."""


def parse_url(address: str | Path) -> URL:
    """Return the URL of a database; without "://", `address` is an SQLite file. Raises WinaError for a bad URL."""
    if isinstance(address, Path) or "://" not in address:
        return URL.create("sqlite", database=str(Path(address).expanduser()))
    try:
        # SQLAlchemy refuses the older name of the scheme, which libpq takes.
        url = make_url(address.replace("postgres://", "postgresql://", 1))
        if "plugin" in url.query:
            raise ArgumentError("a plugin is code")
        if url.get_backend_name() not in ("sqlite", "postgresql"):
            raise ArgumentError("another kind of database")
        if "@" in (url.host or ""):
            raise ArgumentError("an @ of a password is written %40")
    except (ArgumentError, ValueError) as error:
        quoted = "This address" if "@" in address or "password" in address else repr(address)  # it may contain one
        raise WinaError(
            f"{quoted} is not a database that can be opened here; give the path of a file, or an address such as "
            "sqlite:////home/me/results.sqlite or postgresql://me@host/results."
        ) from error
    return normalized(url) if is_postgres(url) else url


def place_of(url: URL) -> str:
    """Return the file or the address of a database, as it is shown and stored: without passwords."""
    file = sqlite_file(url)
    if file is not None:
        return str(file)
    public = without_password(url)
    return public.set(drivername="postgresql").render_as_string() if is_postgres(url) else public.render_as_string()


def sqlite_file(url: URL) -> Path | None:
    """Return the file of an SQLite URL; None for one in memory and for other databases."""
    in_memory = url.database in (None, "", ":memory:")
    return None if url.get_backend_name() != "sqlite" or in_memory else Path(str(url.database)).absolute()


def open_engine(
    url: URL, *, foreign_keys: bool = True, connect: Callable[[], sqlite3.Connection] | None = None
) -> Engine:
    """Return an engine that has not connected yet; `connect`, for SQLite, opens a connection for each use of it.

    Foreign keys are enforced and writers wait for each other. Raises WinaError if psycopg is missing, or for an
    address that it cannot use.
    """
    if is_postgres(url):
        try:
            return open_postgres(url)
        except ModuleNotFoundError as error:
            raise WinaError(
                f"The results database {place_of(url)} needs the Python package {error.name}, which is not installed; "
                'install it with: pip install "wina-workbench[postgres]"'
            ) from error
        except ArgumentError as error:  # such as a port that is no number among the parameters
            raise WinaError(f"The address {place_of(url)} cannot be used ({error}); correct it.") from error
    arguments: dict[str, Any] = {"timeout": BUSY_SECONDS, "check_same_thread": False}
    if connect is not None:
        engine = create_engine(url, creator=connect, poolclass=NullPool)
    elif sqlite_file(url) is None:
        # A database in memory exists for one connection alone, which all threads share.
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
        # A writer locks at once: under WAL, a reader that turns writer is refused if somebody wrote in between.
        writing = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def use_wal(file: Path) -> None:
    """Let readers and a writer work at the same time. A folder on a network may refuse, which does no other harm."""
    with closing(sqlite3.connect(file, timeout=BUSY_SECONDS)) as connection:
        if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            connection.execute("PRAGMA journal_mode = WAL")


@contextmanager
def explained(url: URL) -> Iterator[None]:
    """Turn errors of a database that is opened, read or written into WinaError."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        explanation = _explanation(error, url)
        if explanation is None:
            raise
        raise explanation from error
    except UnicodeEncodeError as error:
        raise WinaError(f"{error.object!r} has characters that no text can have; leave them out.") from error
    except OverflowError as error:
        if (refusal := explain_sqlite(str(error), place_of(url))) is None:
            raise
        raise refusal from error
    # Content that no version has written.
    except (CellError, JSONDecodeError, ValidationError, RecursionError) as error:
        fault = explain(error).rstrip(".") if isinstance(error, ValidationError) else str(error)
        raise WinaError(damaged(place_of(url), f"a value in its tables: {fault}")) from error


def for_writing(engine: Engine) -> Engine:
    """Return the engine for a transaction that writes."""
    # A snapshot from before the wait for the lock would lack what others wrote.
    options: dict[str, Any] = {"isolation_level": "READ COMMITTED"} if is_postgres(engine.url) else {}
    return engine.execution_options(writing=True, **options)


def _explanation(error: DBAPIError | sqlite3.Error, url: URL) -> WinaError | None:
    cause = getattr(error, "orig", None) or error
    if is_postgres(url):
        return explain_postgres(cause, place_of(url), broken=getattr(error, "connection_invalidated", False))
    return explain_sqlite(str(cause), place_of(url))


# ---- reading of a database that cannot be written, on a full or read-only disk ---------------------------------------

LARGEST_CELL = 2**26
"""Most bytes of a value that is read: one of a foreign file could fill the memory."""


def open_to_read(url: URL, file: Path, *, untouched: bool = False) -> Engine:
    """Return an engine that reads all that was committed to an SQLite file, without space on its disk.

    With `untouched`, the file's bytes stay the same if it can be read without moving its log into it.
    """
    return open_engine(url, connect=partial(connect_to_read, file, untouched=untouched))


def connect_to_read(file: Path, *, untouched: bool = False) -> sqlite3.Connection:
    """Return a single connection as `open_to_read`. Raises sqlite3.OperationalError if the file cannot be read."""
    refusal = sqlite3.OperationalError("unable to open database file")
    for query, locking in _ways(file, untouched):
        connection = sqlite3.connect(
            f"{file.as_uri()}?{query}", uri=True, timeout=BUSY_SECONDS, check_same_thread=False
        )
        try:
            connection.execute(f"PRAGMA locking_mode = {locking}")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_CELL)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # connecting alone reads nothing
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
