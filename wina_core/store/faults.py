"""The search for a damaged value in an SQLite database that could not be read."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

from sqlalchemy import Column
from sqlalchemy import Table as SqlTable

from wina_core.store.column_types import kinds_of
from wina_core.store.tables import Table

_JSON = frozenset({"spec", "summary", "versions", "scores", "plan", "point"})
"""Columns that hold a JSON object."""
_SQL_TYPES = {str: "text", int: "integer", bool: "integer", float: "real", type(None): "null"}
_LONGEST = 40


def first_fault(file: Path) -> str:
    """Return the place and value of the first cell that its column cannot hold, or an empty text.

    A cell is at fault if its type is not its column's, if it is text that is not UTF-8, if it should be a JSON object
    and is none, or if it names a row that is missing.
    """
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            connection.text_factory = bytes
            found = (fault for table in Table.metadata.sorted_tables for fault in _faults(connection, table))
            return next(chain(found, _dangling(connection)), "")
    except sqlite3.Error as error:
        return str(error)


def _faults(connection: sqlite3.Connection, table: SqlTable) -> Iterator[str]:
    for column in table.columns:
        query = f'SELECT rowid, "{column.name}" FROM "{table.name}" WHERE {_condition(column)} LIMIT 1'
        for row, value in connection.execute(query):
            yield _fault(table, column, row, value)
        if str in kinds_of(column):
            for row, value in connection.execute(f'SELECT rowid, "{column.name}" FROM "{table.name}"'):
                if isinstance(value, bytes) and not _is_utf8(value):
                    yield _fault(table, column, row, value)


def _dangling(connection: sqlite3.Connection) -> Iterator[str]:
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"row {row} of its table {table.decode()} names a row of {parent.decode()} that is missing"


def _condition(column: Column[object]) -> str:
    """Return the SQL condition of a cell at fault."""
    name = f'"{column.name}"'
    kinds = ", ".join(f"'{_SQL_TYPES[kind]}'" for kind in kinds_of(column))
    wrong = f"typeof({name}) NOT IN ({kinds})"
    if column.name not in _JSON:
        return wrong
    return f"{wrong} OR CASE WHEN json_valid({name}) THEN json_type({name}) <> 'object' ELSE {name} IS NOT NULL END"


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _fault(table: SqlTable, column: Column[object], row: int, value: object) -> str:
    shown = repr(value.decode(errors="replace") if isinstance(value, bytes) else value)
    shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
    return f"row {row} of its table {table.name} has the {column.name} {shown}"
