"""The engines of a pool, each with its work, and the choice of one for a job."""

from collections.abc import Iterable
from dataclasses import dataclass

from wina_core.engine.client.client import EngineClient
from wina_core.engine.client.job_models import model_of
from wina_core.engine.client.job_queue import is_interactive, is_timed
from wina_core.jobs import EvaluateJob, Job, Submit
from wina_core.jobs.run_sharing import Group, Part, SharedJob
from wina_core.records import Environment
from wina_core.specs import ModelSource
from wina_core.specs.machine import LOCAL

SHORT_SECONDS = 30.0
"""Age of a measurement in flight up to which an evaluation gives it up for an interactive job."""


@dataclass(eq=False)
class Worker:
    """An engine and its work."""

    place: int
    """Number of the engine, from 1."""
    client: EngineClient
    light: bool = False
    """True for the one beside the others that computes only what a user waits for."""
    machine: str = LOCAL
    """Name of the machine that it runs on."""
    hardware: str = ""
    environment: Environment | None = None
    """What it computes with; None until it is ready."""
    part: Part | None = None
    group: Group | None = None
    """The rotated model that it holds: that of the runs that it was given last."""
    model: ModelSource | None = None
    """The model of its last job."""
    pid: int | None = None
    """The process that was given its last job."""
    idle_since: float = 0.0
    promised: SharedJob | None = None
    """The job that its work gives it up for: the next one here, if it still waits then."""
    ending: bool = False
    """True while the light one is stopped because nobody needed it for a while."""

    @property
    def free(self) -> bool:
        """True if it could begin a job."""
        return self.part is None and not self.ending and self.client.available

    def holds(self, job: Job) -> bool:
        """Return whether its last job was on the model of this one, in the same process."""
        model = model_of(job)
        return model is not None and model == self.model and self.pid == self.client.pid

    def take(self, part: Part, job: Job) -> None:
        """Take a part as its work, the job as it is computed."""
        part.loaded = self.holds(job)
        self.part, self.model, self.promised = part, model_of(job), None

    def submit(self, part: Part, job: Job) -> None:
        """Send its work to the engine."""
        self.client.send(Submit(job_id=part.id, job=job))
        self.pid = self.client.pid


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


def soon_free(workers: Iterable[Worker]) -> bool:
    """Return whether an engine computes, or is being given up for, an interactive job, which ends soon."""
    working = [(worker.part.whole, worker.promised) for worker in workers if worker.part is not None]
    return any(job is not None and is_interactive(job.job) for jobs in working for job in jobs)


def is_promised(workers: Iterable[Worker], job: SharedJob) -> bool:
    """Return whether an engine is being given up for a job."""
    return any(worker.promised is job and worker.part is not None for worker in workers)


def timed_work(workers: Iterable[Worker]) -> bool:
    """Return whether a sweep is being timed."""
    return any(is_timed(each.part.whole.job) and not each.part.held for each in workers if each.part is not None)


def loading_models(workers: Iterable[Worker]) -> list[ModelSource | None]:
    """Return the models that engines may yet take memory for: of all work from which no result has come."""
    return [worker.model for worker in workers if worker.part is not None and not worker.part.loaded]


def yielding_worker(workers: Iterable[Worker], job: Job) -> Worker | None:
    """Return an engine whose evaluation or sweep could make room for an interactive job.

    Rather an evaluation, and rather one that holds the job's model.
    """
    able = [worker for worker in workers if worker.part is not None and _can_release(worker.part)]
    able.sort(key=lambda worker: (worker.part is not None and is_timed(worker.part.whole.job), not worker.holds(job)))
    return able[0] if able else None


def _can_release(part: Part) -> bool:
    job = part.whole.job
    return (isinstance(job, EvaluateJob) or is_timed(job)) and not part.released and not part.held


def give_up(part: Part, now: float) -> bool:
    """Decide whether a part loses its measurement in flight: an evaluation's short one, once for each result.

    So a stream of interactive jobs delays an evaluation, and never stops it.
    """
    job = part.whole
    part.gives_up = isinstance(job.job, EvaluateJob) and not job.gave_up and now - part.since < SHORT_SECONDS
    job.gave_up |= part.gives_up
    return part.gives_up


def waiting_reason(part: Part, now: float) -> str:
    """Return why an interactive job waits for a part that makes room."""
    job = part.whole
    if is_timed(job.job):
        return "other work would disturb the timings; waits for the end of the current point"
    if part.gives_up:
        return "waits until the evaluation has made room"
    usual = None if job.times is None else job.times.usual(part.run)
    left = None if usual is None else usual - (now - part.since)
    about = "" if left is None or left <= 0.0 else f", about {_rounded(left)}"
    return f"waits for the end of the current measurement{about}"


def _rounded(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100.0 else f"{seconds / 60.0:.0f} min"


def busy_reason(workers: Iterable[Worker]) -> str:
    """Return why an interactive job waits for work that makes no room."""
    kinds = {worker.part.whole.job.kind for worker in workers if worker.part is not None}
    return f"memory allows no second engine; waits for the end of: {', '.join(sorted(kinds))}" if kinds else ""
