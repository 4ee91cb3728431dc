"""Overview of a database: its place, version and numbers of rows."""

from pathlib import Path
from typing import NamedTuple

from sqlalchemy import func, select

from wina_core.store.connection import parse_url, place_of
from wina_core.store.copying.kinds import KINDS
from wina_core.store.copying.source import existing_file, open_source


class Overview(NamedTuple):
    """A database and what it holds."""

    place: str
    """File or URL, without a password."""
    kind: str
    """SQLAlchemy's name of the database program: sqlite, postgresql."""
    schema: str
    """Version of its tables as it is stored."""
    size: int | None
    """Bytes of the file; None for other databases."""
    rows: dict[str, int]
    """Number of rows of each table."""


def describe_database(place: str | Path) -> Overview:
    """Read a database without changing it. Raises WinaError as `open_source`."""
    url = parse_url(place)
    file = existing_file(url)
    with open_source(place) as source, source.engine.connect() as connection:
        tables = dict.fromkeys(table for kind in KINDS for table in kind.tables)
        rows = {table.name: connection.scalar(select(func.count()).select_from(table)) or 0 for table in tables}
    size = None if file is None else file.stat().st_size
    return Overview(place_of(url), url.get_backend_name(), source.version, size, rows)
