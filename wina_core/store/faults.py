"""The search for a damaged value in an SQLite database that could not be read."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from sqlalchemy import Column
from sqlalchemy import Table as SqlTable

from wina_core.store.tables import Table

_JSON = frozenset({"spec", "summary", "versions", "scores", "plan"})
"""Columns that hold a JSON object."""
_LONGEST = 40


def first_fault(file: Path) -> str:
    """Return the place and value of the first cell that its column cannot hold, or an empty text.

    A cell is at fault if its type is not its column's, if it is text that is not UTF-8, or if it should be a JSON
    object and is none.
    """
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            connection.text_factory = bytes
            return next((fault for table in Table.metadata.sorted_tables for fault in _faults(connection, table)), "")
    except sqlite3.Error as error:
        return str(error)


def _faults(connection: sqlite3.Connection, table: SqlTable) -> Iterator[str]:
    for column in table.columns:
        query = f'SELECT rowid, "{column.name}" FROM "{table.name}" WHERE {_condition(column)} LIMIT 1'
        for row, value in connection.execute(query):
            yield _fault(table, column, row, value)
        if _is_text(column):
            for row, value in connection.execute(f'SELECT rowid, "{column.name}" FROM "{table.name}"'):
                if isinstance(value, bytes) and not _is_utf8(value):
                    yield _fault(table, column, row, value)


def _condition(column: Column[object]) -> str:
    """Return the SQL condition of a cell at fault."""
    name = f'"{column.name}"'
    kinds = (
        ["text"] if _is_text(column) else ["integer"] if column.type.python_type in (int, bool) else ["integer", "real"]
    )
    kinds += ["null"] if column.nullable else []
    wrong = f"typeof({name}) NOT IN ({', '.join(map(repr, kinds))})"
    if column.name not in _JSON:
        return wrong
    return f"{wrong} OR CASE WHEN json_valid({name}) THEN json_type({name}) <> 'object' ELSE {name} IS NOT NULL END"


def _is_text(column: Column[object]) -> bool:
    return column.type.python_type is str


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
