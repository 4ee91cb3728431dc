"""Merge of another results database: rows that this one lacks are added, and none of its results is replaced.

Rows are matched by their identity, such as the hash of a model or run or the name of a run's unit, never by their ids,
which differ between databases.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Engine, Table, delete, func, insert, select, update

from wina_core.errors import WinaError
from wina_core.records import ACTIVE
from wina_core.store import upgrade
from wina_core.store.annotations import join_tags, split_tags
from wina_core.store.connection import (
    explained,
    for_writing,
    open_engine,
    open_to_read,
    parse_url,
    place_of,
    sqlite_file,
)
from wina_core.store.postgres import is_postgres
from wina_core.store.reader import Reader
from wina_core.store.refusals import damaged
from wina_core.store.sessions import QUEUED_ELSEWHERE
from wina_core.store.store import Store
from wina_core.store.tables import CellError, RunTable, StoreTable, UnitTable, kinds_of

OnProgress = Callable[[int, int], object]
"""Called with the rows that are merged and their total, between two transactions."""
NOT_FINISHED = "It was not finished when it was merged; run it again to compute what is missing."
_AT_ONCE = 20
"""Rows of one transaction, without those that belong to them: others wait for at most seconds to write."""
_MOST_VALUES = 5_000
"""Values of one query; SQLite takes at most 32,766, PostgreSQL 65,535."""
_STATE = ("status", "error", "user", "host", "environment_id", "started", "finished")
T = TypeVar("T")
Row = dict[str, Any]
Ids = dict[Table, dict[int, int]]
"""The id in this database by the id in the other one, for each table."""


class _Kind(NamedTuple):
    """A table with the columns that identify its rows, and the tables whose rows belong to one of its rows each."""

    table: Table
    identity: tuple[str, ...]
    children: tuple[Table, ...] = ()


_TABLES = StoreTable.metadata.tables
_LAYERS, _RUNS, _MODELS, _UNITS = (_TABLES[name] for name in ("layer_stats", "runs", "models", "units"))
KINDS = (
    _Kind(_MODELS, ("hash",)),
    _Kind(_TABLES["environments"], ("hash",)),
    _Kind(_TABLES["measures"], ("hash",)),
    _Kind(_TABLES["plans"], ("name",)),
    _Kind(_TABLES["rotations"], ("hash", "model_id"), (_LAYERS,)),
    _Kind(_TABLES["calibrations"], ("hash", "model_id", "rotation_hash", "method_label"), (_LAYERS,)),
    _Kind(_RUNS, ("hash",)),
    _Kind(_UNITS, ("run_id", "unit"), (_TABLES["metrics"], _TABLES["samples"], _LAYERS)),
    _Kind(_TABLES["studies"], ("hash",), (_TABLES["study_runs"], _TABLES["study_labels"])),
    _Kind(_TABLES["latency"], ("hash", "environment_id")),
    _Kind(_TABLES["decoding"], ("hash", "environment_id")),
    _Kind(_TABLES["completions"], ("hash", "environment_id")),
    _Kind(_TABLES["imported_files"], ("digest",)),
)
"""Each after the tables to which its foreign keys refer. Jobs that have not ended stay with their program."""


def merge_database(
    source: str | Path, store: Store, on_progress: OnProgress = lambda *_: None, *, newer: bool = False
) -> dict[str, int]:
    """Add the rows of another database, an SQLite file or a URL, that the store lacks; return the number by table.

    The store keeps its own plan, timing or completion if both have one. Tags and pins are united; an empty note is
    replaced. Runs that were not finished arrive as interrupted, and a run is done once the units of both databases make
    it complete. A run that was deleted here stays deleted and gets no units. With `newer`, a measurement replaces one
    that was finished before it. Each transaction leaves a valid database; merging again completes an interrupted merge
    and changes nothing else. Raises WinaError for a source that is missing, foreign, damaged, or of another schema.
    """
    if place_of(parse_url(source)) == place_of(store.url):
        raise WinaError(f"{place_of(store.url)} cannot be merged into itself; name another database.")
    with open_source(source) as engine, engine.connect() as reading:
        target = open_engine(store.url)
        try:
            return _Merge(reading, target, newer=newer).run(on_progress)
        finally:
            target.dispose()


@contextmanager
def open_source(source: str | Path) -> Iterator[Engine]:
    """Open a database for reading alone. Raises WinaError if its lists cannot be read."""
    url = parse_url(source)
    file = sqlite_file(url)
    if file is not None and not file.exists():
        raise WinaError(f"There is no results database {file}; check the path.")
    upgrade.check(url)
    engine = open_engine(url) if file is None else open_to_read(url, file, untouched=True)
    try:
        with explained(url):
            upgrade.check_server(engine)
            upgrade.check_readable(engine)
            # Specs that this version cannot read are refused before any of them is here.
            reader = Reader(engine)
            reader.run_details()
            reader.imports()
            for model in reader.model_sources().values():
                reader.rotations(model)
        yield engine
    finally:
        engine.dispose()


class _Merge:
    """A merge under way."""

    def __init__(self, source: Connection, target: Engine, *, newer: bool) -> None:
        self._source, self._target, self._newer = source, target, newer
        self._ids: Ids = {}
        self._states: dict[int, Row] = {}
        """State of each run that is done in the other database, by its id here."""
        self._deleted: set[int] = set()
        """Ids of the runs that were deleted here."""
        self._added: Counter[str] = Counter()

    def run(self, on_progress: OnProgress) -> dict[str, int]:
        """Merge all kinds; return the rows added by table."""
        with explained(self._source.engine.url):
            if is_postgres(self._source.engine.url):  # the server would end a reader that waits for a writer
                self._source.exec_driver_sql("SET idle_in_transaction_session_timeout = 0")
            ids = {
                kind: self._source.scalars(select(kind.table.c.id).order_by(kind.table.c.id)).all() for kind in KINDS
            }
        total, done = sum(map(len, ids.values())), 0
        for kind, of_kind in ids.items():
            for batch in _portions(of_kind, _AT_ONCE):
                with explained(self._source.engine.url):
                    rows = self._rows(kind.table, "id", batch)
                    children = [self._rows(child, _owner(child, kind.table), batch) for child in kind.children]
                with explained(self._target.url), for_writing(self._target).begin() as writing:
                    self._write(writing, kind, rows, children)
                done += len(batch)
                on_progress(done, total)
        with explained(self._target.url):
            # At the end, since the units of a run may come in several batches.
            for runs in _portions(self._ids.get(_RUNS, {}).values(), _MOST_VALUES):
                with for_writing(self._target).begin() as writing:
                    self._complete(writing, runs)
        return dict(+self._added)

    def _rows(self, table: Table, column: str, values: Sequence[int]) -> list[Row]:
        kinds = {field.name: kinds_of(field) for field in table.c}
        drops_nul = is_postgres(self._target.url)  # the server refuses NUL in texts
        rows = []
        query = select(table).where(table.c[column].in_(values)).order_by(*table.primary_key)
        for mapping in self._source.execute(query).mappings():
            row = dict(mapping)
            for name, value in row.items():
                if type(value) not in kinds[name]:
                    raise CellError(f"the type of a {name}")
                if drops_nul and isinstance(value, str):
                    row[name] = value.replace("\0", "\ufffd")
            rows.append(row)
        return rows

    def _write(self, writing: Connection, kind: _Kind, theirs: list[Row], children: list[list[Row]]) -> None:
        """Add the other database's rows that are missing here, with their children; note their ids in both."""
        table = kind.table
        # Their ids are taken out of the rows, so that the insertion gives them new ones.
        rows_by_id = dict(zip([row.pop("id") for row in theirs], theirs, strict=True))
        for row in theirs:
            self._translate(row, table)
        if "run_id" in kind.identity:
            # A run that was deleted here gets no units.
            rows_by_id = {number: row for number, row in rows_by_id.items() if row["run_id"] not in self._deleted}
        stored = _stored(writing, kind, rows_by_id.values())
        if self._newer and table is _UNITS:
            stored = self._without_older(writing, kind, rows_by_id.values(), stored)
        new = {_identity(kind, row): row for row in rows_by_id.values() if _identity(kind, row) not in stored}
        self._unite(writing, kind, rows_by_id.values(), stored)
        if new:
            writing.execute(insert(table), [_as_it_arrives(row) if table is _RUNS else row for row in new.values()])
        stored_now = _stored(writing, kind, rows_by_id.values()) if new else stored
        ids = self._ids.setdefault(table, {})
        ids.update((number, stored_now[_identity(kind, row)]["id"]) for number, row in rows_by_id.items())
        self._added[table.name] += len(new)
        if table is _RUNS:
            self._note_states(rows_by_id.values(), stored_now)
        # Of rows of one identity the last was inserted, and its children alone follow.
        owners = {number for number, row in rows_by_id.items() if new.get(_identity(kind, row)) is row}
        for child, rows in zip(kind.children, children, strict=True):
            column = _owner(child, table)
            rows = [row for row in rows if row[column] in owners]
            for row in rows:
                row.pop("id", None)
                self._translate(row, child)
            if rows:
                writing.execute(insert(child), rows)
                self._added[child.name] += len(rows)

    def _without_older(
        self, writing: Connection, kind: _Kind, rows: Iterable[Row], stored: Mapping[tuple[Any, ...], Row]
    ) -> dict[tuple[Any, ...], Row]:
        """Delete the stored measurements that are older than those of the other database, and return the rest."""
        pairs = [(ours, theirs) for theirs in rows if (ours := stored.get(_identity(kind, theirs))) is not None]
        older = {ours["id"] for ours, theirs in pairs if ours["finished"] < theirs["finished"]}
        writing.execute(delete(kind.table).where(kind.table.c.id.in_(older)))
        return {identity: row for identity, row in stored.items() if row["id"] not in older}

    def _translate(self, row: Row, table: Table) -> None:
        """Replace the ids in foreign keys by those of this database."""
        for column in table.c:
            for key in column.foreign_keys:
                if (number := row[column.name]) is None:
                    continue
                if number not in (ids := self._ids[key.column.table]):
                    fault = f"a value in its tables: a {column.name} without its row"
                    raise WinaError(damaged(place_of(self._source.engine.url), fault))
                row[column.name] = ids[number]

    def _note_states(self, rows: Iterable[Row], stored: Mapping[tuple[Any, ...], Row]) -> None:
        for row in rows:
            ours = stored[(row["hash"],)]
            if row["status"] == "done":
                self._states[ours["id"]] = {name: row[name] for name in _STATE}
            if ours["deleted"] is not None:
                self._deleted.add(ours["id"])

    def _unite(
        self, writing: Connection, kind: _Kind, rows: Iterable[Row], stored: Mapping[tuple[Any, ...], Row]
    ) -> None:
        """Add annotations and chosen rotations to stored runs, and summaries to stored models."""
        for theirs in rows:
            ours = stored.get(_identity(kind, theirs))
            if ours is None:
                continue
            united: Row = {}
            if kind.table is _RUNS:
                united = {
                    "tags": join_tags({*split_tags(ours["tags"]), *split_tags(theirs["tags"])}),
                    "note": ours["note"] or theirs["note"],
                    "pinned": ours["pinned"] or theirs["pinned"],
                    "chosen_rotation": ours["chosen_rotation"] or theirs["chosen_rotation"],
                }
            elif kind.table is _MODELS:
                united = {name: theirs[name] for name in ("summary", "opened") if ours[name] is None}
            if any(value != ours[name] for name, value in united.items()):
                writing.execute(update(kind.table).where(kind.table.c.id == ours["id"]).values(united))

    def _complete(self, writing: Connection, runs: Sequence[int]) -> None:
        """Mark these runs as done if their units are complete, with the state of the other database if done there."""
        run, unit = RunTable, UnitTable
        units = select(func.count(unit.id)).where(unit.run_id == run.id).correlate(run).scalar_subquery()
        last = select(func.max(unit.finished)).where(unit.run_id == run.id).correlate(run).scalar_subquery()
        waits = run.status.in_(ACTIVE) & ~run.owner.startswith(QUEUED_ELSEWHERE)  # a program here ends it itself
        complete = run.id.in_(runs) & (run.status != "done") & ~waits & (run.unit_count > 0)
        query = select(run.id, last).where(complete, run.deleted.is_(None), units == run.unit_count)
        for number, finished in writing.execute(query).all():
            state = self._states.get(number, {"status": "done", "error": "", "finished": finished})
            writing.execute(update(run).where(run.id == number).values(state))


def _owner(child: Table, table: Table) -> str:
    """Return the name of the child's foreign key to a table."""
    (owner,) = (column for column in child.c if any(key.column.table is table for key in column.foreign_keys))
    return owner.name


def _stored(target: Connection, kind: _Kind, rows: Iterable[Row]) -> dict[tuple[Any, ...], Row]:
    """Return the target's rows with the identities of these, by identity."""
    first = kind.table.c[kind.identity[0]]
    stored = target.execute(select(kind.table).where(first.in_({row[first.name] for row in rows}))).mappings()
    return {_identity(kind, row): row for row in map(dict, stored)}


def _identity(kind: _Kind, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in kind.identity)


def _as_it_arrives(run: Row) -> Row:
    """Return a run as it is added: without an owner, and interrupted until its units have followed."""
    if run["status"] in ("done", *ACTIVE):
        run = run | {"status": "interrupted", "error": NOT_FINISHED, "finished": time.time()}
    return run | {"owner": ""}


def _portions(values: Iterable[T], most: int) -> Iterator[list[T]]:
    rows = list(values)
    return (rows[start : start + most] for start in range(0, len(rows), most))
