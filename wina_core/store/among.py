"""A condition on membership in a list of any length: databases bound the number of values in a statement."""

import getpass
import json
import socket
from collections.abc import Iterable
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, bindparam, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from wina_core.records import ACTIVE
from wina_core.store.tables import RunTable


def among(column: Any, texts: Iterable[str]) -> ColumnElement[bool]:
    """Return the condition that a column of texts is among these, which go to the database as one value."""
    condition: ColumnElement[bool] = column.in_(_rows(json.dumps(list(texts))))
    return condition


class _Texts(GenericFunction[str]):
    """The texts of a JSON array, one a row."""

    type = Text()
    inherit_cache = True
    name = "wina_texts"


@compiles(_Texts, "sqlite")
def _on_sqlite(element: _Texts, compiler: Any, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_Texts, "postgresql")
def _on_postgres(element: _Texts, compiler: Any, **options: Any) -> str:
    return f"json_array_elements_text(CAST({compiler.process(element.clauses, **options)} AS JSON))"


def _rows(array: str) -> Select[tuple[str]]:
    listed = _Texts(bindparam(None, array, Text(), unique=True)).table_valued("value")
    return select(listed.c.value)


# ---- runs that wait or are being computed ----------------------------------------------------------------------------


@cache
def whoami() -> dict[str, str]:
    """Return the columns of `tables.RunTable` on who computes, and on which computer."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in some containers
        user = ""
    return {"user": user, "host": socket.gethostname()}


def active(runs: Iterable[str]) -> ColumnElement[bool]:
    """Return the condition on the queued and running ones of the runs with these hashes."""
    return among(RunTable.hash, runs) & RunTable.status.in_(ACTIVE)
