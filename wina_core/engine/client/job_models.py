"""The model that a job works on, and the machine on which that lies."""

from wina_core.jobs import DecodeJob, EstimateJob, EvaluateJob, ExportModelJob, Job, LatencyJob
from wina_core.specs import ModelSource
from wina_core.specs.machine import split_location


def model_of(job: Job) -> ModelSource | None:
    """Return the model that a job works on first; None for one without a model."""
    match job:
        case EvaluateJob() | EstimateJob():
            return job.runs[0].spec.model if job.runs else None
        case DecodeJob() | ExportModelJob():
            return job.spec.model
        case LatencyJob():
            return None
        case _:
            return job.model


def machine_of(job: Job) -> str | None:
    """Return the machine on which a job's model lies; None for one of this computer, a hub id and a job without one."""
    model = model_of(job)
    return None if model is None else split_location(model.location)[0]
