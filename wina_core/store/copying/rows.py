"""Reading of entries, and the numbers behind the hashes in them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, func, select

from wina_core.store.column_types import CellError
from wina_core.store.copying.entry import Entry, Kind, Part, Row
from wina_core.store.tables import Run, Unit

AT_ONCE = 5_000
"""Values in one query; SQLite takes at most 32,766, PostgreSQL 65,535."""
MOST_ROWS = 20_000
"""Rows that are copied in one transaction, unless a single entry has more."""
T = TypeVar("T")


def read_entries(
    connection: Connection, kind: Kind, column: str, values: Iterable[Any], *, of_source: bool = False
) -> dict[Row, Entry]:
    """Return the entries with these values in a column, in the order in which they were stored, by identity.

    Those `of_source` are as they are copied.
    """
    names = kind.columns
    rows = [row for some in portions(values) for row in _rows(connection, kind.table, column, some, ("id", *names))]
    rows.sort(key=lambda row: row[0])
    numbers = [row[0] for row in rows]
    parts = [_part_rows(connection, part, numbers) for part in kind.parts]
    found: dict[Row, Entry] = {}
    for number, row in zip(numbers, hashes_for_ids(connection, kind.table, names, rows, skip=1), strict=True):
        own = dict(zip(names, row, strict=True))
        own = dict(kind.copied(own)) if of_source else own
        entry = kind.entry(number, own, tuple(of.get(number, []) for of in parts))
        twin = found.get(entry.identity)  # NULL in an identity makes no row unique
        found[entry.identity] = entry if twin is None else kind.combine(kind, entry, twin)
    return found


def hashes_for_ids(
    connection: Connection, table: Table, names: Sequence[str], rows: Sequence[Row], skip: int = 0
) -> list[Row]:
    """Return rows, without their first cells, with hashes in place of the numbers of other tables' rows."""
    return _translated(connection, table, names, [row[skip:] for row in rows], "id", "hash")


def ids_for_hashes(connection: Connection, table: Table, names: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    """Return rows with this database's numbers in place of the hashes of other tables' rows."""
    return _translated(connection, table, names, rows, "hash", "id")


def batches(connection: Connection, kind: Kind, parts: Sequence[Part]) -> Iterator[tuple[list[int], int]]:
    """Yield the numbers of all rows of a kind, in their order, with how many rows they have together with the parts.

    A run has the rows of its units.
    """
    sizes = {number: 1 for (number,) in connection.execute(select(kind.table.c.id).order_by(kind.table.c.id))}
    for part in parts:
        owner = part.table.c[part.owner]
        query = select(owner, func.count()).where(owner.is_not(None)).group_by(owner)
        if kind.table is Run.__table__:
            query = select(Unit.run_id, func.count()).join(part.table, owner == Unit.id).group_by(Unit.run_id)
        for number, count in connection.execute(query):
            sizes[number] += count
    batch: list[int] = []
    rows = 0
    for number, size in sizes.items():
        if batch and rows + size > MOST_ROWS:
            yield batch, rows
            batch, rows = [], 0
        batch.append(number)
        rows += size
    if batch:
        yield batch, rows


def portions(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield values in lists of at most AT_ONCE."""
    found = list(values)
    return (found[start : start + AT_ONCE] for start in range(0, len(found), AT_ONCE))


def parent_of(table: Table, column: str) -> Table | None:
    """Return the table whose rows a column names; None for a column of values."""
    return next((key.column.table for key in table.c[column].foreign_keys), None)


def _part_rows(connection: Connection, part: Part, owners: Sequence[int]) -> dict[int, list[Row]]:
    """Return the rows of a part by the number of their owner."""
    names = (part.owner, *part.columns)
    rows = [row for some in portions(owners) for row in _rows(connection, part.table, part.owner, some, names)]
    found: dict[int, list[Row]] = {}
    translated = hashes_for_ids(connection, part.table, part.columns, rows, skip=1)
    for (owner, *_), row in zip(rows, translated, strict=True):
        found.setdefault(owner, []).append(row)
    return found


def _rows(connection: Connection, table: Table, column: str, values: Sequence[Any], names: Sequence[str]) -> list[Row]:
    query = select(*(table.c[name] for name in names)).where(table.c[column].in_(values))
    order = table.c.id if "id" in table.c else table.c[names[-1]]
    rows = [tuple(row) for row in connection.execute(query.order_by(order))]
    for place, name in enumerate(names):
        if table.c[name].type.python_type is str and not {type(row[place]) for row in rows} <= {str, type(None)}:
            raise CellError(name)
    return rows


def _translated(
    connection: Connection, table: Table, names: Sequence[str], rows: Sequence[Row], old: str, new: str
) -> list[Row]:
    if not rows:
        return []
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for place, name in enumerate(names):
        parent = parent_of(table, name)
        if parent is not None:
            known: dict[Any, Any] = {None: None}
            for some in portions(set(columns[place]) - {None}):
                query = select(parent.c[old], parent.c[new]).where(parent.c[old].in_(some))
                known.update((key, value) for key, value in connection.execute(query))
            columns[place] = [known[value] for value in columns[place]]
    return list(zip(*columns, strict=True))
