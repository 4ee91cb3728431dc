"""Opening of a database that is only read: it is neither upgraded nor marked nor made."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL, Engine

from wina_core.errors import WinaError
from wina_core.store import schema
from wina_core.store.connection import explained, open_engine, parse_url, place_of, sqlite_file
from wina_core.store.read_only import open_to_read
from wina_core.store.reader import Reader
from wina_core.store.refusals import explain_sqlite


class Source(NamedTuple):
    """A database that is open to read."""

    engine: Engine
    version: str
    """Version of its tables; where it is older than this program's, the engine reads an upgraded copy."""


@contextmanager
def open_source(place: str | Path) -> Iterator[Source]:
    """Open a file or URL to read. A file of an older version is copied to a temporary one, which is upgraded.

    Raises WinaError for a database that is missing, foreign, damaged or newer.
    """
    url = parse_url(place)
    file = existing_file(url)
    with explained(url), tempfile.TemporaryDirectory(prefix="wina-database-") as folder:
        engine = _to_read(url, file)
        try:
            version = schema.stored_version(engine)
            if version is None:
                raise WinaError(f"{place_of(url)} holds no results yet; check the path.")
            if version < schema.HEAD:
                if file is None:
                    raise WinaError(
                        f"{place_of(url)} has the older schema {version}; open it once with this version of the "
                        "program, which upgrades it."
                    )
                engine.dispose()
                copy = Path(folder) / "results.sqlite"
                copy_file(file, copy)
                engine = open_engine(parse_url(copy))
            schema.prepare(engine)  # which refuses a newer one, and upgrades the copy of an older one
            yield Source(engine, version)
        finally:
            engine.dispose()


@contextmanager
def open_reader(place: str | Path) -> Iterator[Reader]:
    """Open a database for queries, as `open_source`."""
    with open_source(place) as source:
        yield Reader(source.engine)


def existing_file(url: URL) -> Path | None:
    """Return the file of an SQLite database; None for other databases. Raises WinaError for a missing file, one that
    no version made, and a database in memory."""
    file = sqlite_file(url)
    if file is None and url.get_backend_name() == "sqlite":
        raise WinaError("A database in memory is empty; name a file or a URL of a database.")
    if file is not None:
        if not file.exists():
            raise WinaError(f"There is no results database {file}; check the path.")
        schema.check(url)
    return file


def copy_file(source: Path, target: Path) -> None:
    """Copy an SQLite database with all that was committed to it, while others may write to it.

    Raises WinaError where the target's disk is full.
    """
    engine = open_to_read(parse_url(source), source, untouched=True)
    try:
        with closing(sqlite3.connect(target)) as copy:
            connection = engine.raw_connection()
            try:
                original = connection.driver_connection
                assert isinstance(original, sqlite3.Connection)
                original.backup(copy)
            except sqlite3.OperationalError as error:
                if "full" in str(error):
                    raise explain_sqlite(str(error), target) or error from error
                raise
            finally:
                connection.close()
    finally:
        engine.dispose()


def _to_read(url: URL, file: Path | None) -> Engine:
    if file is not None:
        return open_to_read(url, file, untouched=True)
    engine = open_engine(url)
    schema.check_server(engine)
    return engine
