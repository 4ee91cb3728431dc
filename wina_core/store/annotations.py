"""Annotations of runs (tags, a note and a pin), and deletion of runs: hidden at once, restored or erased later."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, select, update

from wina_core.errors import WinaError
from wina_core.store.tables import RunTable, UnitTable, in_list, is_active


class RunAnnotations(NamedTuple):
    """Tags, a note, and whether lists keep the run at their top."""

    tags: tuple[str, ...] = ()
    note: str = ""
    pinned: bool = False


Annotations = Mapping[str, RunAnnotations]
"""By the hashes of the runs."""


def split_tags(text: str) -> tuple[str, ...]:
    """Return the tags of a line with commas between them, each once, in alphabetical order."""
    return tuple(sorted({" ".join(tag.split()) for tag in text.split(",")} - {""}))


def join_tags(tags: Iterable[str]) -> str:
    """Return tags as a line with commas between them. Raises WinaError for a tag with a comma."""
    tags = tuple(tags)
    if broken := [tag for tag in tags if "," in tag]:
        raise WinaError(f'A tag cannot have a comma, but "{broken[0]}" has one; write it as two tags.')
    return ", ".join(split_tags(",".join(tags)))


# ---- in the database -------------------------------------------------------------------------------------------------


def annotate(
    connection: Connection,
    annotations: Annotations,
    only: Collection[str] = RunAnnotations._fields,
    seen: Annotations | None = None,
) -> None:
    """Replace the annotations of the runs with these hashes, or `only` these fields of them.

    With `seen`, the annotations that the user started from, tags that others added or removed since stay so.
    """
    _check_known(connection, annotations)
    stored = {} if seen is None or "tags" not in only else _tags(connection, annotations)
    rows = []
    for run, annotation in annotations.items():
        tags = set(annotation.tags)
        if seen is not None and run in stored:
            # A three-way merge: the user's own changes since `seen`, on what is stored by now.
            tags = (stored[run] - (set(seen[run].tags) - tags)) | (tags - set(seen[run].tags))
        written = {"tags": join_tags(tags), "note": annotation.note.strip(), "pinned": annotation.pinned}
        rows.append({"of": run, **{name: written[name] for name in only}})
    if rows:
        connection.execute(update(RunTable).where(RunTable.hash == bindparam("of")), rows)


def _tags(connection: Connection, runs: Iterable[str]) -> dict[str, set[str]]:
    query = select(RunTable.hash, RunTable.tags).where(in_list(RunTable.hash, runs))
    return {run: set(split_tags(tags)) for run, tags in connection.execute(query)}


def hide(connection: Connection, runs: Sequence[str]) -> float:
    """Hide the runs with these hashes until they are restored, and return the time in seconds since 1970; those
    deleted before keep theirs. Raises WinaError if one is queued or running."""
    _check_known(connection, runs)
    if waiting := connection.scalar(select(func.count()).where(is_active(runs))):
        raise WinaError(
            f"{waiting} of the {len(runs)} runs wait or are being computed; cancel their job before deleting them."
        )
    now = time.time()
    connection.execute(
        update(RunTable).where(in_list(RunTable.hash, runs), RunTable.deleted.is_(None)).values(deleted=now)
    )
    return now


def unhide(connection: Connection, runs: Sequence[str], deleted: float | None = None) -> None:
    """Restore those of the runs that are deleted, or only those that were `deleted` at exactly this time."""
    _check_known(connection, runs)
    restoring = update(RunTable).where(in_list(RunTable.hash, runs)).values(deleted=None)
    connection.execute(restoring if deleted is None else restoring.where(RunTable.deleted == deleted))


def erase(connection: Connection) -> int:
    # Their units and labels go with them, by foreign keys.
    return connection.execute(delete(RunTable).where(RunTable.deleted.is_not(None))).rowcount


def begin_anew(connection: Connection, runs: Iterable[str]) -> None:
    """Restore deleted runs without their numbers, to be computed again."""
    values = {"deleted": None, "status": "interrupted", "started": None, "finished": None}
    deleted_runs = in_list(RunTable.hash, runs) & RunTable.deleted.is_not(None)
    connection.execute(delete(UnitTable).where(UnitTable.run_id.in_(select(RunTable.id).where(deleted_runs))))
    connection.execute(update(RunTable).where(deleted_runs).values(values))


def _check_known(connection: Connection, runs: Collection[str]) -> None:
    stored = set(connection.scalars(select(RunTable.hash).where(in_list(RunTable.hash, runs))))
    if unknown := [run for run in runs if run not in stored]:
        raise WinaError(f"The results database has no run {unknown[0]}; refresh the list of runs.")
