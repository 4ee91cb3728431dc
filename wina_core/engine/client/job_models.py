"""The model that a job works on."""

from wina_core.jobs import DecodeJob, EstimateJob, EvaluateJob, ExportModelJob, Job, LatencyJob
from wina_core.specs import ModelSource


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
