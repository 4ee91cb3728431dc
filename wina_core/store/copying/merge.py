"""Merge of one database into another: what it lacks is added, what is newer replaces what is older."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, delete, insert, update

from wina_core.errors import WinaError
from wina_core.store.connection import explained, for_writing, open_engine, parse_url, place_of, sqlite_file
from wina_core.store.copying.entry import Entry, Kind, Row, Sum, total
from wina_core.store.copying.kinds import AFTER_RUNS, BEFORE_RUNS, KINDS, RUNS, UNITS
from wina_core.store.copying.rows import batches, ids_for_hashes, parent_of, portions, read_entries
from wina_core.store.copying.runs import complete_runs
from wina_core.store.copying.source import open_source
from wina_core.store.reader import Reader
from wina_core.store.refusals import UnwritableError
from wina_core.store.store import Store

OnProgress = Callable[[int, int], object]
"""Called with the number of rows that are copied or verified and their total, between two transactions."""


class TableReport(NamedTuple):
    """A table after a merge."""

    table: str
    rows: int
    """Rows of the source."""
    written: int
    """Rows that the target lacked or had older."""
    kept: int
    """Rows of which the target keeps its own, newer version, or one that unites both."""
    digest: str
    """Sum of the digests of all compared rows, the same in the source and the target."""


@dataclass
class _Tally:
    rows: int = 0
    written: int = 0
    kept: int = 0
    compared: Sum = field(default_factory=Sum)


@dataclass
class _Merge:
    """A merge under way."""

    source: Connection
    target: Engine
    on_progress: OnProgress
    total: int = 0
    done: int = 0
    tallies: dict[str, _Tally] = field(default_factory=lambda: {t.name: _Tally() for k in KINDS for t in k.tables})
    kept: set[tuple[str, Row]] = field(default_factory=set)
    """Entries of which the target keeps its own, by table and identity."""

    def advance(self, rows: int) -> None:
        self.done += rows
        self.on_progress(self.done, self.total)


def copy_database(
    source: str | Path, target: str | Path, on_progress: OnProgress = lambda *_: None
) -> list[TableReport]:
    """Merge the source into the target, which is made where it does not exist; return the verified tables.

    Entries are matched by their identity: the hashes of models, rotations, runs and the like, and a run's units by
    their names. The newer one wins; of equally old ones of different content one is chosen by its digest, whichever
    database it is in. Runs are combined as `combine_runs` says. Copying again changes nothing, and completes a copy
    that was interrupted: each transaction leaves a valid database. Raises WinaError where the target does not hold
    afterwards what it should.
    """
    url, other = parse_url(target), parse_url(source)
    if _is_same(sqlite_file(url), sqlite_file(other)) or place_of(url) == place_of(other):
        raise WinaError(f"{place_of(url)} is both the source and the target; name two databases.")
    with open_source(source) as opened, _open_target(target) as into, opened.engine.connect() as reading:
        _check_lists(Reader(opened.engine))
        parts = {kind.table.name: kind.parts for kind in KINDS} | {RUNS.table.name: UNITS.parts}
        plan = [
            (kind, batch, rows)
            for kind in (*BEFORE_RUNS, RUNS, *AFTER_RUNS)
            for batch, rows in batches(reading, kind, parts[kind.table.name])
        ]
        merge = _Merge(reading, into, on_progress, total=2 * sum(rows for *_, rows in plan))
        for kind, batch, rows in plan:
            _copy(merge, kind, batch)
            merge.advance(rows)
        for kind, batch, rows in plan:
            _verify(merge, kind, batch)
            merge.advance(rows)
    return _reports(merge)


def _check_lists(source: Reader) -> None:
    """Raise WinaError for a source with rows that would make a list of the target unreadable."""
    source.run_details()
    source.imports()
    for model in source.model_sources().values():
        source.rotations(model)


# ---- copying -------------------------------------------------------------------------------------------------------


def _copy(merge: _Merge, kind: Kind, numbers: Sequence[int]) -> None:
    """Copy a batch in one transaction, during which nobody else writes."""
    contents = _contents(merge.source, kind, numbers)
    with explained(merge.target.url), for_writing(merge.target).begin() as connection:
        done = [_write(connection, of, entries) for of, entries in contents]
        if kind is RUNS:
            complete_runs(connection, [str(name) for (name,) in contents[0][1]])
    for (of, entries), (written, kept) in zip(contents, done, strict=True):
        merge.kept.update((of.table.name, identity) for identity in kept)
        for identity, entry in entries.items():
            for table, found in zip(of.tables, entry.sums, strict=True):
                tally = merge.tallies[table.name]
                tally.rows += found.rows
                tally.written += found.rows if identity in written else 0
                tally.kept += found.rows if identity in kept else 0


def _contents(source: Connection, kind: Kind, numbers: Sequence[int]) -> list[tuple[Kind, dict[Row, Entry]]]:
    """Return the source's entries of a batch, those of runs followed by their units."""
    found = [(kind, read_entries(source, kind, "id", numbers, of_source=True))]
    if kind is RUNS:
        found.append((UNITS, read_entries(source, UNITS, "run_id", numbers, of_source=True)))
    return found


def _write(connection: Connection, kind: Kind, entries: dict[Row, Entry]) -> tuple[set[Row], set[Row]]:
    """Store entries; return the identities of those that changed the target, and of those of which it keeps its own."""
    stored = _stored(connection, kind, entries.keys())
    new = [entry for identity, entry in entries.items() if identity not in stored]
    combined = {identity: kind.unite(entries[identity], entry) for identity, entry in stored.items()}
    newer = [entry for identity, entry in combined.items() if entry.sums != stored[identity].sums]
    owners = {entry.identity: stored[entry.identity].id for entry in newer}
    if new:
        extra = dict.fromkeys(kind.left_out, "")
        connection.execute(insert(kind.table), [row | extra for row in _physical(connection, kind, new)])
        made = _stored(connection, kind, {entry.identity for entry in new}, parts=False)
        owners |= {identity: entry.id for identity, entry in made.items()}
    for entry, row in zip(newer, _physical(connection, kind, newer), strict=True):
        connection.execute(update(kind.table).where(kind.table.c.id == owners[entry.identity]).values(row))
    for place, part in enumerate(kind.parts):
        for some in portions(owners[entry.identity] for entry in newer):
            connection.execute(delete(part.table).where(part.table.c[part.owner].in_(some)))
        rows = [(owners[entry.identity], row) for entry in (*new, *newer) for row in entry.parts[place]]
        bare = ids_for_hashes(connection, part.table, part.columns, [row for _, row in rows])
        values = [
            {part.owner: owner, **dict(zip(part.columns, row, strict=True))}
            for (owner, _), row in zip(rows, bare, strict=True)
        ]
        for portion in portions(values):
            connection.execute(insert(part.table), portion)
    written = {entry.identity for entry in (*new, *newer)}
    return written, {identity for identity, entry in combined.items() if entry.sums != entries[identity].sums}


def _stored(connection: Connection, kind: Kind, identities: Collection[Row], *, parts: bool = True) -> dict[Row, Entry]:
    """Return the target's entries with these identities."""
    column = kind.identity[0]
    keys: list[Any] = list({identity[0] for identity in identities})
    if parent_of(kind.table, column) is not None:
        keys = [key for (key,) in ids_for_hashes(connection, kind.table, (column,), [(key,) for key in keys])]
    bare = kind if parts else Kind(kind.table, kind.identity, left_out=kind.left_out)
    found = read_entries(connection, bare, column, keys)
    return {identity: entry for identity, entry in found.items() if identity in identities}


def _physical(connection: Connection, kind: Kind, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    rows = [tuple(entry.values[name] for name in kind.columns) for entry in entries]
    return [
        dict(zip(kind.columns, row, strict=True)) for row in ids_for_hashes(connection, kind.table, kind.columns, rows)
    ]


# ---- verification --------------------------------------------------------------------------------------------------


def _verify(merge: _Merge, kind: Kind, numbers: Sequence[int]) -> None:
    """Read a batch back from both databases; raise WinaError where the target does not hold what it should."""
    for of, entries in _contents(merge.source, kind, numbers):
        with explained(merge.target.url), merge.target.connect() as connection:
            stored = _stored(connection, of, entries.keys())
        for identity, entry in entries.items():
            found = stored.get(identity)
            if found is None or _expected(merge, of, entry, found).sums != found.sums:
                fault = "is missing" if found is None else "differs"
                raise WinaError(
                    f"The copy in {place_of(merge.target.url)} is not complete: the row "
                    f"{', '.join(map(str, identity))} of the table {of.table.name} {fault}; copy again."
                )
            for table, part in zip(of.tables, found.sums, strict=True):
                tally = merge.tallies[table.name]
                tally.compared = total((tally.compared, part))


def _expected(merge: _Merge, kind: Kind, entry: Entry, found: Entry) -> Entry:
    """Return the content that the target should hold; others may have stored a newer one since."""
    if kind is RUNS:
        return kind.unite(entry, found)
    is_its_own = (kind.table.name, entry.identity) in merge.kept or found.time > entry.time
    return found if is_its_own else entry


def _reports(merge: _Merge) -> list[TableReport]:
    return [
        TableReport(name, tally.rows, tally.written, tally.kept, f"{tally.compared.digest:032x}"[:16])
        for name, tally in merge.tallies.items()
        if tally.rows
    ]


# ---- the target ----------------------------------------------------------------------------------------------------


@contextmanager
def _open_target(place: str | Path) -> Iterator[Engine]:
    """Open a database to write, made or upgraded where needed."""
    with Store(place) as store:
        if store.problem:
            raise UnwritableError(store.problem)
        engine = open_engine(store.url)
        try:
            yield engine
        finally:
            engine.dispose()


def _is_same(one: Path | None, other: Path | None) -> bool:
    return one is not None and other is not None and one.resolve() == other.resolve()
