"""The rest of a job that ended early."""

from collections.abc import Mapping
from typing import Any

from wina_app.style.translation import tr
from wina_core.engine.protocol import DecodeJob, EvaluateJob, Job, LatencyJob, PendingRun
from wina_core.errors import WinaError


def rest_of(job: Job, measured: Mapping[str, tuple[str, ...]], store: Any) -> Job | None:
    """Return the job without its stored measurements and the `measured` points of a sweep; None if nothing is missing.

    Reads the store and hashes runs: not for the main thread. Raises WinaError for runs that this store does not have.
    """
    match job:
        case EvaluateJob():
            runs = _missing(job, store)
            return job.model_copy(update={"runs": runs}) if runs else None
        case LatencyJob() | DecodeJob():
            keys = {*job.stored, *measured}
            stored = {key: tuple({*job.stored.get(key, ()), *measured.get(key, ())}) for key in keys}
            return job.model_copy(update={"stored": stored})
        case _:
            return job


def _missing(job: EvaluateJob, store: Any) -> tuple[PendingRun, ...]:
    asked = {run.spec.content_hash(): run for run in job.runs}
    found = {}
    for pending in store.pending([run.spec for run in job.runs], job.samples):
        name = pending.spec.content_hash()
        if units := tuple(unit for unit in asked[name].units if unit in pending.units):
            found[name] = PendingRun(spec=pending.spec, units=units)
    if any(store.run_status(name) is None for name in found):
        raise WinaError(
            tr("This job's runs are not in this results database; open the one that has them, or evaluate them again.")
        )
    return tuple(found.values())
