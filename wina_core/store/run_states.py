"""States of runs: those that wait or are being computed, and changes of all others."""

import time
from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select, update

from wina_core.records import ACTIVE
from wina_core.store.sql import in_list
from wina_core.store.tables import RunTable, UnitTable


def is_active(runs: Iterable[str]) -> ColumnElement[bool]:
    return in_list(RunTable.hash, runs) & RunTable.status.in_(ACTIVE)


def update_stopped_runs(connection: Connection, condition: ColumnElement[bool], values: dict[str, Any]) -> int:
    """Give these values to runs that nobody computes any more, and return their number; complete ones become done."""
    stored = select(func.count(UnitTable.id)).where(UnitTable.run_id == RunTable.id).correlate(RunTable)
    complete = stored.scalar_subquery() == RunTable.unit_count
    now = values.get("finished") or time.time()
    done = {"status": "done", "finished": func.coalesce(RunTable.finished, now), "error": ""}
    changes = (condition & ~complete, values), (condition & complete, done)
    return sum(connection.execute(update(RunTable).where(runs).values(new)).rowcount for runs, new in changes)
