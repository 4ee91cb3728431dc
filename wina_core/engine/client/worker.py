"""The engines of a pool, each with its work, and the choice of one for a job."""

from collections.abc import Iterable
from dataclasses import dataclass

from wina_core.engine.client.client import EngineClient
from wina_core.engine.client.job_queue import is_interactive
from wina_core.engine.protocol import DecodeJob, EstimateJob, EvaluateJob, Job, LatencyJob
from wina_core.engine.protocol.run_sharing import Group, Part, SharedJob
from wina_core.specs import ModelSource


@dataclass(eq=False)
class Worker:
    """An engine and its work."""

    place: int
    """Number of the engine, from 1."""
    client: EngineClient
    light: bool = False
    """True for the one beside the others that computes only what a user waits for."""
    hardware: str = ""
    part: Part | None = None
    group: Group | None = None
    """The rotated model that it holds: that of the runs that it was given last."""
    model: ModelSource | None = None
    """The model of its last job."""
    idle_since: float = 0.0
    promised: SharedJob | None = None
    """The job that its work gives it up for: the next one here, if it still waits then."""
    ending: bool = False
    """True while the light one is stopped because nobody needed it for a while."""

    @property
    def free(self) -> bool:
        """True if it could begin a job."""
        return self.part is None and not self.ending

    def holds(self, job: Job) -> bool:
        """Return whether its last job was on the model of this one."""
        model = model_of(job)
        return model is not None and model == self.model


def model_of(job: Job) -> ModelSource | None:
    """Return the model that a job works on first; None for one without a model."""
    match job:
        case EvaluateJob() | EstimateJob():
            return job.runs[0].spec.model if job.runs else None
        case DecodeJob():
            return job.spec.model
        case LatencyJob():
            return None
        case _:
            return job.model


def free_batch_worker(workers: Iterable[Worker], job: Job) -> Worker | None:
    """Return the first free engine for any job, for an interactive one rather one that holds its model."""
    free = [worker for worker in workers if worker.free and not worker.light]
    if is_interactive(job):
        free.sort(key=lambda worker: not worker.holds(job))
    return free[0] if free else None


def held_worker(workers: Iterable[Worker], job: Job) -> Worker | None:
    """Return an engine whose paused work could make room for a job."""
    able = (worker for worker in workers if not worker.light or is_interactive(job))
    return next((each for each in able if each.part is not None and each.part.held and not each.part.released), None)


def promised_job(workers: Iterable[Worker]) -> tuple[SharedJob, Worker] | None:
    """Return an interactive job whose promised engine is free, and that engine.

    It goes before every other job: the one that gave up its engine may be ahead of it in the queue.
    """
    for worker in workers:
        if worker.free and (job := worker.promised) is not None:
            if job.waiting and not job.paused and is_interactive(job.job):
                return job, worker
            worker.promised = None
    return None


def is_promised(workers: Iterable[Worker], job: SharedJob) -> bool:
    """Return whether an engine is being given up for a job."""
    return any(worker.promised is job and worker.part is not None for worker in workers)


def evaluating_worker(workers: Iterable[Worker], job: Job) -> Worker | None:
    """Return an engine whose evaluation could make room for an interactive job, rather one that holds its model."""
    able = [worker for worker in workers if worker.part is not None and _can_release(worker.part)]
    able.sort(key=lambda worker: not worker.holds(job))
    return able[0] if able else None


def _can_release(part: Part) -> bool:
    return isinstance(part.whole.job, EvaluateJob) and not part.released and not part.held


def waiting_reason(busy: Iterable[SharedJob]) -> str:
    """Return why an interactive job waits for these jobs, which make no room."""
    kinds = {job.job.kind for job in busy}
    return f"memory allows no second engine; waits for the end of: {', '.join(sorted(kinds))}" if kinds else ""
