"""Errors of databases in the user's words, and which of them may pass."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

from sqlalchemy import Column, Table

from wina_core.errors import WinaError
from wina_core.store.sql import kinds_of
from wina_core.store.tables import StoreTable

_FULL = "The disk that holds {database} is full or failing; free some space and try again, stored results are safe."
_NO_VALUE = "The results database {database} cannot hold a value ({reason})."
_UNREACHABLE = (
    "The results database {database} cannot be reached ({reason}); check its address, its server and WINA_DATABASE."
)
_POSTGRES = {
    "08": _UNREACHABLE,
    "25": "The results database {database} takes no changes now ({reason}); try again later.",
    "28": "The results database {database} refuses this user or password ({reason}); check the user in the address, "
    "and the password by WINA_DATABASE_PASSWORD.",
    "3D": "The server has no such results database {database} ({reason}); have it created, or check the name.",
    "3F": (
        "The results database {database} has no schema that this user may use ({reason}); check search_path, or "
        "have one made with CREATE SCHEMA."
    ),
    "40": "Another program writes to {database} at the same time; try again.",
    "42501": (
        "This user may not do that in the results database {database} ({reason}); its owner can allow it with GRANT, "
        "for new tables GRANT CREATE ON SCHEMA public."
    ),
    "53": "The server of {database} has no connection, memory or disk space left ({reason}); try again later.",
    "55P03": "Another program keeps {database} locked; close it and try again.",
    "57": _UNREACHABLE,
    "58": "The server of {database} fails ({reason}); its log says why.",
}
"""Sentences on refusals that may pass, by the beginning of PostgreSQL's code of the error."""
_POSTGRES_CONTENT = {
    "22": _NO_VALUE,
    "23502": _NO_VALUE,
    "42P01": "The results database {database} lacks a table ({reason}); restore it from a backup.",
    "42703": "The results database {database} lacks a column ({reason}); restore it from a backup.",
}
"""Sentences on errors that stay, likewise."""
_SERVER_TEXTS = (
    ("password", "28"),
    ("authentication", "28"),
    ("role", "28"),
    ("pg_hba", "28"),
    ("database", "3D"),
)
"""Codes of refused connections by a word of the server's text: the driver gives no code."""


class UnwritableError(WinaError):
    """Refusal of a write that may succeed later: a full, failing or read-only disk, a locked or distant database."""


def unwritable(file: object, error: OSError) -> UnwritableError:
    """Return the error for a database beside which a file cannot be made."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return UnwritableError(_FULL.format(database=file))
    return UnwritableError(
        f"The results database {file} cannot be written ({error.strerror}); make its folder writable or set "
        "WINA_DATABASE to a file elsewhere."
    )


def damaged(database: object, fault: str = "") -> str:
    damage = f" ({fault})" if fault else ""
    return f"The results database {database} is damaged{damage}; put one of the backups beside it in its place."


def explain_sqlite(reason: str, database: object) -> WinaError | None:
    """Return the error for a reason that SQLite gives; None for a defect of the program."""
    lower = reason.lower()
    if "not a database" in lower:
        return WinaError(f"{database} is not a results database; move it away or set WINA_DATABASE to another file.")
    if "could not decode" in lower:
        return WinaError(damaged(database, "it has text that is not UTF-8"))
    if "too big" in lower:
        return WinaError(damaged(database, "it has a value of more than 64 MiB"))
    if "malformed" in lower or "no such table" in lower or "no such column" in lower:
        return WinaError(damaged(database))
    if "unable to open" in lower or "readonly" in lower:
        return UnwritableError(
            f"The results database {database} cannot be written; make its folder writable or set WINA_DATABASE to a "
            "file elsewhere."
        )
    if "disk is full" in lower or "disk i/o error" in lower:
        return UnwritableError(_FULL.format(database=database))
    if "not null constraint" in lower or "too large to convert" in lower:
        return WinaError(_NO_VALUE.format(database=database, reason=reason))
    if "locked" in lower:
        return UnwritableError(f"Another program keeps {database} locked; close it and try again.")
    return None


def explain_postgres(error: BaseException, database: str, *, broken: bool) -> WinaError | None:
    """Return the error for one of psycopg's; None for a defect of the program. `broken`: the connection ended."""
    lines = [line.strip() for line in str(error).splitlines()] or [type(error).__name__]
    reason = lines[0].rpartition("FATAL:")[2].strip()
    code = getattr(error, "sqlstate", None) or ""
    if not code and type(error).__name__ == "OperationalError":
        # "the database system is starting up" has a word of a refusal, but passes.
        refused = ("FATAL:" in lines[0] and "the database system is" not in reason) or "no password" in reason
        code = next((code for word, code in _SERVER_TEXTS if refused and word in reason), "08")
    if not code and "connection option" in reason:  # one that its address names
        code = "08"
    for sentences, kind in ((_POSTGRES, UnwritableError), (_POSTGRES_CONTENT, WinaError)):
        for start in (code, code[:2]):
            if start and start in sentences:
                return kind(sentences[start].format(database=database, reason=reason))
    return UnwritableError(_UNREACHABLE.format(database=database, reason=reason)) if broken else None


# ---- search for a damaged value --------------------------------------------------------------------------------------

_JSON = frozenset({"spec", "summary", "versions", "scores", "plan", "point", "record"})
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
            connection.text_factory = bytes  # decoding would fail on the very text that is searched for
            faults = (fault for table in StoreTable.metadata.sorted_tables for fault in _faults(connection, table))
            return next(chain(faults, _dangling(connection)), "")
    except sqlite3.Error as error:
        return str(error)


def _faults(connection: sqlite3.Connection, table: Table) -> Iterator[str]:
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
    # CASE, unlike AND, has a fixed order: json_type fails on a text that is no JSON.
    return f"{wrong} OR CASE WHEN json_valid({name}) THEN json_type({name}) <> 'object' ELSE {name} IS NOT NULL END"


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _fault(table: Table, column: Column[object], row: int, value: object) -> str:
    text = repr(value.decode(errors="replace") if isinstance(value, bytes) else value)
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return f"row {row} of its table {table.name} has the {column.name} {text}"
