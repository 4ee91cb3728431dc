"""The rest of a job that ended early."""

import logging
from collections.abc import Mapping, Set
from typing import Any

from wina_core.errors import WinaError
from wina_core.jobs import DecodeJob, EvaluateJob, Job, LatencyJob, PendingRun, Submit

_log = logging.getLogger(__name__)

NO_POINTS: Mapping[str, tuple[str, ...]] = {}


def rest_of(job: Job, store: Any, measured: Mapping[str, tuple[str, ...]] = NO_POINTS) -> Job | None:
    """Return the job without its stored measurements and the `measured` points of a sweep; None if nothing is missing.

    Its runs are queued. `measured` holds hashes of points by `Environment.key`. Reading the store and hashing runs
    takes time: call this on no thread that must answer. Raises WinaError for runs that this store does not have.
    """
    if not isinstance(job, EvaluateJob):
        return without_points(job, measured)
    requested = {run.spec.content_hash(): run.units for run in job.runs}
    runs = []
    for pending in store.pending([run.spec for run in job.runs], job.samples):
        name = pending.spec.content_hash()
        if units := tuple(unit for unit in requested[name] if unit in pending.units):
            runs.append(PendingRun(spec=pending.spec, units=units))
            if store.run_status(name) is None:
                raise WinaError(
                    "This job's runs are not in this results database; open the one that has them, or evaluate them "
                    "again."
                )
    store.queue_runs(tuple(runs))
    return job.model_copy(update={"runs": tuple(runs)}) if runs else None


def without_points(job: Job, measured: Mapping[str, tuple[str, ...]]) -> Job:
    """Return a sweep without its `measured` points, hashes by `Environment.key`; any other job as it is."""
    if not isinstance(job, LatencyJob | DecodeJob) or not measured:
        return job
    keys = {*job.stored, *measured}
    stored = {key: tuple({*job.stored.get(key, ()), *measured.get(key, ())}) for key in keys}
    return job.model_copy(update={"stored": stored})


def resumed(store: Any, *, run_model_code: bool = False, trust_task_code: bool = False) -> list[Submit]:
    """Take over the jobs of programs that died and return each with what is missing of it; drop those without a rest.

    Measurements that several of them miss are left to the first. Their own consents to run code do not count, only the
    user's stored ones and those given here. As for `rest_of`, call this on no thread that must answer. A job that
    cannot continue, for example without consent to the code of its tasks, is logged and offered again by the next
    start; it keeps no other from continuing.
    """
    from wina_core.studies.tasks.task_code import (
        task_code,  # reads task files, which the window's start does not wait for
    )

    resumed_jobs = []
    taken: dict[bool, set[tuple[str, str]]] = {False: set(), True: set()}
    """Runs and units of the jobs before, of all and of those that store samples."""
    for submit in store.unfinished_jobs(take=True):
        try:
            is_sweep = isinstance(submit.job, LatencyJob | DecodeJob)
            points = store.measured_points(submit.job.spec.hashes()) if is_sweep else NO_POINTS
            remaining = rest_of(submit.job, store, points)
            if isinstance(remaining, EvaluateJob):
                remaining = _without(remaining, taken[remaining.samples])
            if isinstance(remaining, EvaluateJob):
                consents = {
                    "run_model_code": run_model_code,
                    "task_code": task_code(remaining.runs, trust_task_code),
                }
                remaining = remaining.model_copy(update=consents)
        except WinaError as error:
            _log.warning("%s is not resumed: %s", submit.title or submit.job_id, error)
            continue
        if remaining is None:
            store.forget_jobs([submit.job_id])
            continue
        resumed_jobs.append(submit.model_copy(update={"job": remaining}))
        if isinstance(remaining, EvaluateJob):
            for samples in {False, remaining.samples}:  # samples are not stored by a job without them
                taken[samples] |= {(run.spec.content_hash(), unit) for run in remaining.runs for unit in run.units}
    return resumed_jobs


def _without(job: EvaluateJob, taken: Set[tuple[str, str]]) -> EvaluateJob | None:
    """Return the job without the units of runs, by their hashes, that are `taken`; None if nothing is left."""
    runs = []
    for run in job.runs:
        name = run.spec.content_hash()
        if units := tuple(unit for unit in run.units if (name, unit) not in taken):
            runs.append(PendingRun(spec=run.spec, units=units))
    return job.model_copy(update={"runs": tuple(runs)}) if runs else None
