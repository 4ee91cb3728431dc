"""Entries of a database: a row by its identity, with the rows that belong to it alone and digests of its content.

Rows of other tables are named by their hashes in place of their numbers, which differ between databases.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from pydantic import ValidationError
from sqlalchemy import Double, Table
from sqlalchemy.types import TypeDecorator

from wina_core.specs import base as specs

Row = tuple[Any, ...]
Values = Mapping[str, Any]
_MODULUS = 2**128


class Sum(NamedTuple):
    """Number of rows and the sum of their digests, which their order does not change."""

    rows: int = 0
    digest: int = 0


def total(sums: Sequence[Sum]) -> Sum:
    """Add sums."""
    return Sum(sum(each.rows for each in sums), sum(each.digest for each in sums) % _MODULUS)


class Part(NamedTuple):
    """A table whose rows belong to one entry each."""

    table: Table
    owner: str
    """Column that names the entry."""
    columns: tuple[str, ...]
    """The copied columns."""


@dataclass(frozen=True)
class Entry:
    """A row with what belongs to it."""

    id: int
    """Its number in the database that it was read from."""
    identity: Row
    time: tuple[float, ...]
    values: Values
    parts: tuple[Sequence[Row], ...]
    """Rows of each part of its kind."""
    sums: tuple[Sum, ...]
    """Sum of its own row, then of each part."""


@dataclass(frozen=True)
class Kind:
    """A table with its identity and the rule for two entries of the same identity."""

    table: Table
    identity: tuple[str, ...]
    """Columns of the identity; rows are looked up by the first."""
    time: Callable[[Values], tuple[float, ...]] = lambda _values: ()
    """Time by which an entry is newer than another, as a sortable tuple; () where the identity fixes the content."""
    parts: tuple[Part, ...] = ()
    combine: "Callable[[Kind, Entry, Entry], Entry]" = lambda _kind, source, target: newest(source, target)
    """Return what the target holds afterwards, of the source's entry and the target's."""
    copied: Callable[[Values], Values] = lambda values: values
    """Return a source's row as it is copied."""
    left_out: tuple[str, ...] = ()
    """Columns that are not copied, beside the number."""
    content: tuple[str, type[specs.Part]] | None = None
    """Column with JSON of a spec, whose hash is the row's, or of a plan."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the copied columns."""
        return columns_without(self.table, ("id", *self.left_out))

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return its table, then those of the parts."""
        return (self.table, *(part.table for part in self.parts))

    def unite(self, source: Entry, target: Entry) -> Entry:
        """Return what the target holds afterwards: its own where the source's content is not what its hash says."""
        return target if self._is_forged(source, target) else self.combine(self, source, target)

    def _is_forged(self, source: Entry, target: Entry) -> bool:
        if self.content is None or source.values[self.content[0]] == target.values[self.content[0]]:
            return False
        try:
            found = self.content[1].model_validate_json(source.values[self.content[0]])
        except ValidationError:
            return True
        return isinstance(found, specs.Spec) and found.content_hash() != source.values["hash"]

    def entry(self, number: int, values: Values, parts: tuple[Sequence[Row], ...] = ()) -> Entry:
        """Return an entry of this kind with its sums."""
        identity = tuple(values[name] for name in self.identity)
        own = _sum(self.table, self.columns, identity, [tuple(values[name] for name in self.columns)])
        of_parts = (
            _sum(part.table, part.columns, identity, rows) for part, rows in zip(self.parts, parts, strict=True)
        )
        return Entry(number, identity, self.time(values), values, parts, (own, *of_parts))


def newest(source: Entry, target: Entry) -> Entry:
    """Return the newer of two entries of the same identity; of equally old ones that with the larger sums."""
    return max(target, source, key=lambda each: (each.time, each.sums))


def columns_without(table: Table, left_out: Collection[str]) -> tuple[str, ...]:
    """Return the names of the other columns of a table."""
    return tuple(column.name for column in table.columns if column.name not in left_out)


def _sum(table: Table, names: Sequence[str], identity: Row, rows: Sequence[Row]) -> Sum:
    reals = [place for place, name in enumerate(names) if _is_real(table, name)]
    heading = repr((table.name, identity))
    digest = 0
    for row in rows:
        text = (heading + repr(_same_everywhere(row, reals))).replace("\\x00", "\ufffd")  # as PostgreSQL stores NUL
        digest += int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest(), "big")
    return Sum(len(rows), digest % _MODULUS)


def _is_real(table: Table, name: str) -> bool:
    kind: Any = table.c[name].type
    return isinstance(kind.impl if isinstance(kind, TypeDecorator) else kind, Double)


def _same_everywhere(row: Row, reals: Sequence[int]) -> Row:
    """Replace NaN by None and -0 by 0, as SQLite stores them."""
    for place in reals:
        value = row[place]
        if value == 0.0 or (value is not None and math.isnan(value)):
            row = (*row[:place], 0.0 if value == 0.0 else None, *row[place + 1 :])
    return row
