"""Jobs that have not ended: kept while a program holds them, so that another one can resume them if it dies."""

import time
from collections.abc import Collection, Sequence
from contextlib import suppress

from pydantic import ValidationError
from sqlalchemy import Connection, delete, insert, select, update

from wina_core.jobs import EstimateJob, EvaluateJob, RotateJob, Submit
from wina_core.store.active_runs import active, whoami
from wina_core.store.among import among
from wina_core.store.tables import Run, UnfinishedJob

RESUMABLE = frozenset({"evaluate", "latency", "decode", "rotate", "calibrate", "allocate"})
"""Kinds of jobs that are resumed; the user waits in front of the screen for the others, or they write to a folder."""


def is_resumable(submit: Submit) -> bool:
    """Return whether a job is resumed; not a rotation that is exported: no database names a folder to write to."""
    exports = isinstance(submit.job, RotateJob) and submit.job.export_to is not None
    return submit.job.kind in RESUMABLE and not exports


def keep(connection: Connection, submit: Submit, owner: str) -> None:
    """Keep a job for its owner, which also takes over its queued and running runs."""
    if is_resumable(submit):
        forget(connection, [submit.job_id])
        row = {
            "job_id": submit.job_id,
            "title": submit.title,
            "job": submit.model_dump_json(),
            "priority": submit.priority,
            "owner": owner,
            "submitted": time.time(),
        }
        connection.execute(insert(UnfinishedJob).values(row))
    if isinstance(submit.job, EvaluateJob):
        runs = [pending.spec.content_hash() for pending in submit.job.runs]
        connection.execute(update(Run).where(active(runs)).values(owner=owner, **whoami()))


def forget(connection: Connection, jobs: Collection[str]) -> None:
    """Drop the jobs with these ids."""
    connection.execute(delete(UnfinishedJob).where(among(UnfinishedJob.job_id, jobs)))


def left_behind(connection: Connection, living: Sequence[str], scope: str, owner: str | None) -> list[Submit]:
    """Return the jobs of dead programs as they were submitted, and give them to an owner if there is one.

    Jobs that cannot be read, perhaps those of a newer version, are left out and stay.
    """
    dead = UnfinishedJob.owner.startswith(scope) & UnfinishedJob.owner.not_in(living)
    found = connection.execute(select(UnfinishedJob.job_id, UnfinishedJob.job).where(dead).order_by(UnfinishedJob.id))
    jobs = []
    for row in found.all():
        with suppress(ValidationError):
            submit = Submit.model_validate_json(row.job)
            if submit.job_id == row.job_id and is_resumable(submit):
                jobs.append(without_consent(submit))
    if owner is not None:
        read = UnfinishedJob.job_id.in_([job.job_id for job in jobs])
        connection.execute(update(UnfinishedJob).where(dead & read).values(owner=owner))
    return jobs


def without_consent(submit: Submit) -> Submit:
    """Withdraw the consent to run code: a database may come from somebody else, and no file can consent."""
    if not isinstance(submit.job, EvaluateJob | EstimateJob):
        return submit
    return submit.model_copy(update={"job": submit.job.model_copy(update={"run_model_code": False, "task_code": {}})})
