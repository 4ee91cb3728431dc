"""Claims of runs: of two programs that launch the same run, one computes it."""

import getpass
import socket
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, select, update

from wina_core.errors import WinaError
from wina_core.jobs import PendingRun
from wina_core.records import ACTIVE
from wina_core.records.claims import TakenRun, being_computed
from wina_core.store.among import among
from wina_core.store.reuse import missing_of
from wina_core.store.sessions import QUEUED_ELSEWHERE
from wina_core.store.tables import Run


class Claim(NamedTuple):
    """The runs that are now this program's, with the units that they miss, and those that are another's."""

    pending: tuple[PendingRun, ...]
    taken: tuple[TakenRun, ...]


class Launched(NamedTuple):
    """A study that was saved and claimed."""

    study: str
    """Hash in the store."""
    pending: tuple[PendingRun, ...]
    taken: tuple[TakenRun, ...]


@cache
def whoami() -> dict[str, str]:
    """Return the columns of `tables.Run` on who computes, and on which computer."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in some containers
        user = ""
    return {"user": user, "host": socket.gethostname()}


def active(runs: Iterable[str]) -> ColumnElement[bool]:
    """Return the condition on the queued and running ones of the runs with these hashes."""
    return among(Run.hash, runs) & Run.status.in_(ACTIVE)


def claim(
    connection: Connection,
    pending: Sequence[PendingRun],
    session: str,
    living: Collection[str] | None,
    *,
    samples: bool = False,
    recompute: bool = False,
) -> Claim:
    """Queue for a session the runs that no other living one has, as far as they still miss units.

    `living` has the names of the open sessions; None where nobody can tell which have ended. Raises WinaError for runs
    that are to be recomputed while another session computes them.
    """
    wanted = {each.spec.content_hash(): each for each in pending}
    query = select(Run.hash, Run.owner, Run.user, Run.host).where(active(wanted)).order_by(Run.id)
    taken = [
        TakenRun(row.hash, row.user, row.host)
        for row in connection.execute(query)
        if row.owner != session and (living is None or row.owner in living or row.owner.startswith(QUEUED_ELSEWHERE))
    ]
    if taken and recompute:
        raise WinaError(f"{being_computed(taken)}; recompute them when that has ended.")
    free = {name: each for name, each in wanted.items() if name not in {run.run for run in taken}}
    if not recompute:  # others may have finished some meanwhile
        missing = missing_of({name: each.spec for name, each in free.items()}, connection, samples)
        free = {name: left for name, each in free.items() if name in missing if (left := _common(each, missing[name]))}
    values = {"status": "queued", "error": "", "finished": None, "owner": session, **whoami()}
    own = (Run.owner == session) & Run.status.in_(ACTIVE)
    connection.execute(update(Run).where(among(Run.hash, free) & ~own).values(values))
    return Claim(tuple(free.values()), tuple(taken))


def _common(wanted: PendingRun, missing: PendingRun) -> PendingRun | None:
    units = tuple(unit for unit in wanted.units if unit in missing.units)
    return PendingRun(spec=wanted.spec, units=units) if units else None
