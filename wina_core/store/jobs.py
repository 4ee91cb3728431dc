"""Jobs that have not ended: other programs list and cancel them, and resume those of a program that died. A program
cancels its own jobs whose rows are gone."""

import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection, delete, insert, select, update

from wina_core.jobs import EvaluateJob, RotateJob, Submit
from wina_core.store.sessions import program_identity
from wina_core.store.tables import RunTable, UnfinishedJobTable, UnitTable, in_list, is_active

RESUMABLE = frozenset({"evaluate", "latency", "decode", "rotate", "calibrate", "allocate"})
"""Kinds of jobs that are resumed; the user waits for the others at the screen, or they write to a folder."""
LISTED = RESUMABLE | {"joint", "export_model", "export_gguf"}
"""Kinds of jobs that other programs list and cancel."""


def is_resumable(submit: Submit) -> bool:
    # A database may come from somebody else, and must not name a folder to write to.
    exports = isinstance(submit.job, RotateJob) and submit.job.export_to is not None
    return submit.job.kind in RESUMABLE and not exports


def keep(connection: Connection, submit: Submit, owner: str) -> None:
    """Keep a job for its owner, which also takes over its queued and running runs."""
    if submit.job.kind in LISTED:
        forget(connection, [submit.job_id])
        row = {
            "job_id": submit.job_id,
            "title": submit.title,
            "job": submit.model_dump_json(),
            "priority": submit.priority,
            "owner": owner,
            "submitted": time.time(),
        }
        connection.execute(insert(UnfinishedJobTable).values(row))
    if isinstance(submit.job, EvaluateJob):
        runs = [pending.spec.content_hash() for pending in submit.job.runs]
        connection.execute(update(RunTable).where(is_active(runs)).values(owner=owner, **program_identity()))


def forget(connection: Connection, jobs: Collection[str]) -> None:
    connection.execute(delete(UnfinishedJobTable).where(in_list(UnfinishedJobTable.job_id, jobs)))


class ListedJob(NamedTuple):
    """A job that has not ended."""

    submit: Submit
    state: Literal["waiting", "running", "unfinished"]
    """It is unfinished if its program died."""
    done: int
    """Stored measurements of its runs."""
    total: int | None
    """Measurements of its runs; None for a job without runs."""


def job_ids_of(connection: Connection, owner: str) -> frozenset[str]:
    return frozenset(connection.scalars(select(UnfinishedJobTable.job_id).where(UnfinishedJobTable.owner == owner)))


def jobs_of_others(connection: Connection, living: Collection[str], scope: str, owner: str) -> list[ListedJob]:
    """Return the jobs of others than the owner, without those that cannot be read or resumed. Programs on other
    computers count as living."""
    query = select(UnfinishedJobTable.job, UnfinishedJobTable.owner).where(UnfinishedJobTable.owner != owner)
    rows = connection.execute(query.order_by(UnfinishedJobTable.id)).all()
    jobs = []
    for row in rows:
        with suppress(ValidationError):
            submit = Submit.model_validate_json(row.job)
            is_dead = row.owner.startswith(scope) and row.owner not in living
            if is_dead and not is_resumable(submit):
                continue
            state, done, total = _progress(connection, submit)
            jobs.append(ListedJob(submit, "unfinished" if is_dead else state, done, total))
    return jobs


def _progress(connection: Connection, submit: Submit) -> tuple[Literal["waiting", "running"], int, int | None]:
    if not isinstance(submit.job, EvaluateJob):
        return "running", 0, None
    units_by_run = {run.spec.content_hash(): set(run.units) for run in submit.job.runs}
    ours = in_list(RunTable.hash, units_by_run)
    stored: dict[str, set[str]] = defaultdict(set)
    for run, unit in connection.execute(
        select(RunTable.hash, UnitTable.unit).join(UnitTable, UnitTable.run_id == RunTable.id).where(ours)
    ):
        stored[run].add(unit)
    has_begun = connection.scalar(select(RunTable.id).where(ours, RunTable.status != "queued").limit(1)) is not None
    done = sum(len(units & stored[run]) for run, units in units_by_run.items())
    return "running" if has_begun else "waiting", done, sum(map(len, units_by_run.values()))


def jobs_of_dead_programs(connection: Connection, living: Sequence[str], scope: str, owner: str | None) -> list[Submit]:
    """Return the resumable jobs of dead programs, without consent to run code; give them to `owner` if there is one.

    Jobs that cannot be read, perhaps of a newer version, are left out and stay; those that are not resumed are deleted.
    """
    dead = UnfinishedJobTable.owner.startswith(scope) & UnfinishedJobTable.owner.not_in(living)
    rows = connection.execute(
        select(UnfinishedJobTable.job_id, UnfinishedJobTable.job).where(dead).order_by(UnfinishedJobTable.id)
    ).all()
    jobs = []
    for row in rows:
        with suppress(ValidationError):
            submit = Submit.model_validate_json(row.job)
            if submit.job_id == row.job_id and is_resumable(submit):
                jobs.append(without_consent(submit))
            elif not is_resumable(submit):
                forget(connection, [row.job_id])
    if owner is not None:
        read = UnfinishedJobTable.job_id.in_([job.job_id for job in jobs])
        connection.execute(update(UnfinishedJobTable).where(dead & read).values(owner=owner))
    return jobs


def without_consent(submit: Submit) -> Submit:
    """Withdraw the consent to run code: a database may come from somebody else, and a file cannot consent."""
    if not isinstance(submit.job, EvaluateJob):
        return submit
    return submit.model_copy(update={"job": submit.job.model_copy(update={"run_model_code": False, "task_code": {}})})
