"""What a user writes on runs, and runs that are deleted: hidden at once, restored or erased later."""

import time
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, bindparam, delete, select, update

from wina_core.errors import WinaError
from wina_core.results.marks import RunMarks, join_tags
from wina_core.store.tables import Run, Unit


def mark(connection: Connection, marks: Mapping[str, RunMarks]) -> None:
    """Replace what is written on the runs with these hashes."""
    _check_known(connection, marks)
    rows = [
        {"of": run, "tags": join_tags(each.tags), "note": each.note.strip(), "pinned": each.pinned}
        for run, each in marks.items()
    ]
    if rows:
        connection.execute(update(Run).where(Run.hash == bindparam("of")), rows)


def hide(connection: Connection, runs: Sequence[str]) -> None:
    """Delete the runs with these hashes, until they are restored. WinaError while one waits or is being computed."""
    _check_known(connection, runs)
    busy = Run.hash.in_(runs) & Run.status.in_(("queued", "running"))
    if waiting := len(connection.scalars(select(Run.id).where(busy)).all()):
        raise WinaError(
            f"{waiting} of the {len(runs)} runs wait or are being computed; cancel their job before deleting them."
        )
    connection.execute(update(Run).where(Run.hash.in_(runs), Run.deleted.is_(None)).values(deleted=time.time()))


def unhide(connection: Connection, runs: Sequence[str]) -> None:
    """Restore those of the runs that are deleted."""
    _check_known(connection, runs)
    connection.execute(update(Run).where(Run.hash.in_(runs)).values(deleted=None))


def erase(connection: Connection) -> int:
    """Remove deleted runs for good, with all their numbers; how many."""
    return connection.execute(delete(Run).where(Run.deleted.is_not(None))).rowcount


def begin_anew(connection: Connection, runs: Iterable[str]) -> None:
    """Bring back those of the runs that are deleted, without their numbers: they are to be computed again."""
    gone = Run.hash.in_(list(runs)) & Run.deleted.is_not(None)
    connection.execute(delete(Unit).where(Unit.run_id.in_(select(Run.id).where(gone))))
    values = {"deleted": None, "status": "interrupted", "started": None, "finished": None}
    connection.execute(update(Run).where(gone).values(values))


def _check_known(connection: Connection, runs: Iterable[str]) -> None:
    wanted = list(runs)
    known = set(connection.scalars(select(Run.hash).where(Run.hash.in_(wanted))))
    if unknown := [run for run in wanted if run not in known]:
        raise WinaError(f"The results database has no run {unknown[0]}; refresh the list of runs.")
