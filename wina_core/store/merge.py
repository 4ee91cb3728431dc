"""Merge of another results database: what this one lacks is added, and no result of it is replaced.

Rows are matched by what they are, the hashes of models, runs and the like and the names of a run's units, never by
their numbers, which differ between databases.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Table, func, insert, select, update

from wina_core.errors import WinaError
from wina_core.records import ACTIVE
from wina_core.store import schema, tables
from wina_core.store.annotation_texts import join_tags, split_tags
from wina_core.store.connection import explained, for_writing, open_engine, parse_url, place_of, sqlite_file
from wina_core.store.imported.tables import ImportedFile, ImportedPoint
from wina_core.store.read_only import open_to_read
from wina_core.store.reader import Reader
from wina_core.store.store import Store

OnProgress = Callable[[int, int], object]
"""Called with the rows that are merged and their total, between two transactions."""
NOT_FINISHED = "It was not finished when it was merged; run it again to compute what is missing."
_AT_ONCE = 200
"""Entries of one transaction, each with all that belongs to it."""
_MOST_VALUES = 5_000
"""Values of one query; SQLite takes at most 32,766, PostgreSQL 65,535."""
T = TypeVar("T")
Ids = dict[Table, dict[int, int]]
"""Of each table, the number in this database by the number in the other one."""


class _Kind(NamedTuple):
    """A table with the columns that identify its rows, and the tables whose rows belong to one of its rows each.

    Rows without an identity are copied with the row that they belong to, or not at all.
    """

    table: Table
    identity: tuple[str, ...] = ()
    parts: "tuple[_Kind, ...]" = ()


def _kind(of: type[tables.Table], *identity: str, parts: tuple[_Kind, ...] = ()) -> _Kind:
    assert isinstance(of.__table__, Table)
    return _Kind(of.__table__, identity, parts)


_LAYERS = _kind(tables.LayerStat)
_UNITS = _kind(tables.Unit, "run_id", "unit", parts=(_kind(tables.Metric), _kind(tables.Sample), _LAYERS))
KINDS = (
    _kind(tables.Model, "hash"),
    _kind(tables.Environment, "hash"),
    _kind(tables.Measure, "hash"),
    _kind(tables.Plan, "name"),
    _kind(tables.Rotation, "hash", "model_id", parts=(_LAYERS,)),
    _kind(tables.Calibration, "hash", "model_id", "rotation_hash", "method_label", parts=(_LAYERS,)),
    _kind(tables.Run, "hash", parts=(_UNITS,)),
    _kind(tables.Study, "hash", parts=(_kind(tables.StudyRun), _kind(tables.StudyLabel))),
    _kind(tables.Latency, "hash", "environment_id"),
    _kind(tables.Decoding, "hash", "environment_id"),
    _kind(tables.Completion, "hash", "environment_id"),
    _kind(ImportedFile, "digest", parts=(_kind(ImportedPoint),)),
)
"""Each after those that it names. Jobs that have not ended belong to their program and stay behind."""


def merge_database(source: str | Path, store: Store, on_progress: OnProgress = lambda *_: None) -> dict[str, int]:
    """Add to the store what it lacks of another database, an SQLite file or a URL; return the rows added by table.

    Of a plan, timing or completion that both have, the store keeps its own. Tags and pins are united; an empty note is
    replaced. Runs that were not finished arrive as interrupted, and a run is done once the units of both databases make
    it complete. Each transaction leaves a valid database; merging again completes what was interrupted and changes
    nothing else. Raises WinaError for a source that is missing, foreign, damaged, or of another schema.
    """
    if place_of(parse_url(source)) == place_of(store.url):
        raise WinaError(f"{place_of(store.url)} cannot be merged into itself; name another database.")
    added: dict[str, int] = {}
    with _open_source(source) as engine, engine.connect() as reading, explained(store.url):
        numbers = {kind: list(reading.scalars(select(kind.table.c.id).order_by(kind.table.c.id))) for kind in KINDS}
        total, done = sum(map(len, numbers.values())), 0
        target, ids = open_engine(store.url), Ids()
        try:
            for kind in KINDS:
                for some in _portions(numbers[kind], _AT_ONCE):
                    with for_writing(target).begin() as writing:
                        _add(reading, writing, kind, kind.table.c.id.in_(some), ids, added)
                        if kind.table is tables.Run.__table__:
                            _complete(writing, [ids[kind.table][number] for number in some])
                    done += len(some)
                    on_progress(done, total)
        finally:
            target.dispose()
    return added


@contextmanager
def _open_source(place: str | Path) -> Iterator[Engine]:
    """Open a database that is only read; raise WinaError for one whose lists cannot be read."""
    url = parse_url(place)
    file = sqlite_file(url)
    if file is not None and not file.exists():
        raise WinaError(f"There is no results database {file}; check the path.")
    schema.check(url)
    with explained(url):
        engine = open_engine(url) if file is None else open_to_read(url, file, untouched=True)
        try:
            schema.check_server(engine)
            schema.check_source(engine)
            reader = Reader(engine)
            reader.run_details()
            reader.imports()
            for model in reader.model_sources().values():
                reader.rotations(model)
            yield engine
        finally:
            engine.dispose()


def _add(
    source: Connection, target: Connection, kind: _Kind, which: ColumnElement[bool], ids: Ids, added: dict[str, int]
) -> None:
    """Add the rows of a kind that the target lacks, and what belongs to them; note their numbers in both databases."""
    table = kind.table
    query = select(table).where(which)
    rows = [dict(row) for row in source.execute(query.order_by(table.c.id) if "id" in table.c else query).mappings()]
    numbers = [row.pop("id", None) for row in rows]
    for row in rows:
        _translate(row, table, ids)
    stored = _stored(target, kind, rows)
    new = [row for row in rows if not kind.identity or _identity(kind, row) not in stored]
    if table is tables.Run.__table__:
        _unite(target, [(row, stored[_identity(kind, row)]) for row in rows if _identity(kind, row) in stored])
        new = [_as_interrupted(row) for row in new]
    if new:
        target.execute(insert(table), new)
        added[table.name] = added.get(table.name, 0) + len(new)
    if not kind.identity:
        return
    known = {name: row["id"] for name, row in _stored(target, kind, rows).items()}
    ids.setdefault(table, {}).update(
        (number, known[_identity(kind, row)]) for number, row in zip(numbers, rows, strict=True)
    )
    lacking = {_identity(kind, row) for row in new}
    for part in kind.parts:
        owners = [
            number
            for number, row in zip(numbers, rows, strict=True)
            if part.identity or _identity(kind, row) in lacking
        ]
        (owner,) = (c for c in part.table.c if any(key.column.table is table for key in c.foreign_keys))
        for some in _portions(owners, _MOST_VALUES):
            _add(source, target, part, owner.in_(some), ids, added)


def _translate(row: dict[str, Any], table: Table, ids: Ids) -> None:
    """Replace the numbers of other tables' rows by those of this database."""
    for column in table.c:
        for key in column.foreign_keys:
            if row[column.name] is not None:
                row[column.name] = ids[key.column.table][row[column.name]]


def _stored(target: Connection, kind: _Kind, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], Any]:
    """Return the target's rows with the identities of these, by identity."""
    if not kind.identity:
        return {}
    first = kind.table.c[kind.identity[0]]
    found: dict[tuple[Any, ...], Any] = {}
    for some in _portions({row[first.name] for row in rows}, _MOST_VALUES):
        rows_found = target.execute(select(kind.table).where(first.in_(some))).mappings()
        found.update((_identity(kind, row), row) for row in map(dict, rows_found))
    return found


def _identity(kind: _Kind, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in kind.identity)


def _as_interrupted(row: dict[str, Any]) -> dict[str, Any]:
    """Return a run as it arrives: no program of this database computes it."""
    if row["status"] in ACTIVE:
        row = row | {"status": "interrupted", "error": NOT_FINISHED, "finished": time.time()}
    return row | {"owner": ""}


def _unite(target: Connection, pairs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
    """Add to stored runs what was written on theirs."""
    for theirs, ours in pairs:
        united = {
            "tags": join_tags({*split_tags(ours["tags"]), *split_tags(theirs["tags"])}),
            "note": ours["note"] or theirs["note"],
            "pinned": ours["pinned"] or theirs["pinned"],
        }
        if any(united[name] != ours[name] for name in united):
            target.execute(update(tables.Run).where(tables.Run.id == ours["id"]).values(united))


def _complete(target: Connection, runs: Sequence[int]) -> None:
    """Mark those of these runs as done whose units, of both databases together, are complete."""
    run, unit = tables.Run, tables.Unit
    of_run = select(func.count(unit.id)).where(unit.run_id == run.id).correlate(run).scalar_subquery()
    last = select(func.max(unit.finished)).where(unit.run_id == run.id).correlate(run).scalar_subquery()
    complete = run.id.in_(runs) & run.status.not_in(("done", *ACTIVE)) & (run.unit_count > 0)
    target.execute(update(run).where(complete, of_run == run.unit_count).values(status="done", error="", finished=last))


def _portions(values: Iterable[T], most: int) -> Iterator[list[T]]:
    held = list(values)
    return (held[start : start + most] for start in range(0, len(held), most))
