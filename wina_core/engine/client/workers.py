"""The engines of a pool, each with its work, and the choice of one for a job.

This computer's are there from the start, those of another machine from the first job for it.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from wina_core.engine.client.client import EngineClient
from wina_core.engine.client.shared_job import Part, SharedJob
from wina_core.errors import WinaError
from wina_core.files.hardware import visible_devices
from wina_core.jobs import EvaluateJob, Event, Job, Submit
from wina_core.jobs.job_specs import Group
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
        model = job.first_model
        return model is not None and model == self.model and self.pid == self.client.pid

    def take(self, part: Part, job: Job) -> None:
        """Take a part as its work, the job as it is computed."""
        part.loaded = self.holds(job)
        self.part, self.model, self.promised = part, job.first_model, None

    def submit(self, part: Part, job: Job) -> None:
        """Send its work to the engine."""
        self.client.send(Submit(job_id=part.id, job=job))
        self.pid = self.client.pid


def free_batch_worker(workers: Iterable[Worker], job: Job) -> Worker | None:
    """Return the first free engine for any job, for an interactive one rather one that holds its model."""
    free = [worker for worker in workers if worker.free and not worker.light]
    if job.interactive:
        free.sort(key=lambda worker: not worker.holds(job))
    return free[0] if free else None


def held_worker(workers: Iterable[Worker], job: Job) -> Worker | None:
    """Return an engine whose paused work could make room for a job."""
    able = (worker for worker in workers if not worker.light or job.interactive)
    return next((each for each in able if each.part is not None and each.part.held and not each.part.released), None)


def promised_job(workers: Iterable[Worker]) -> tuple[SharedJob, Worker] | None:
    """Return an interactive job whose promised engine is free, and that engine.

    It goes before every other job: the one that gave up its engine may be ahead of it in the queue.
    """
    for worker in workers:
        if worker.free and (job := worker.promised) is not None:
            if job.waiting and not job.state.is_paused and job.job.interactive:
                return job, worker
            worker.promised = None
    return None


def soon_free(workers: Iterable[Worker]) -> bool:
    """Return whether an engine computes, or is being given up for, an interactive job, which ends soon."""
    working = [(worker.part.whole, worker.promised) for worker in workers if worker.part is not None]
    return any(job is not None and job.job.interactive for jobs in working for job in jobs)


def is_promised(workers: Iterable[Worker], job: SharedJob) -> bool:
    """Return whether an engine is being given up for a job."""
    return any(worker.promised is job and worker.part is not None for worker in workers)


def timed_work(workers: Iterable[Worker]) -> bool:
    """Return whether a sweep is being timed."""
    return any(each.part.whole.job.timed and not each.part.held for each in workers if each.part is not None)


def loading_models(workers: Iterable[Worker]) -> list[ModelSource | None]:
    """Return the models that engines may yet take memory for: of all work from which no result has come."""
    return [worker.model for worker in workers if worker.part is not None and not worker.part.loaded]


def yielding_worker(workers: Iterable[Worker], job: Job) -> Worker | None:
    """Return an engine whose evaluation or sweep could make room for an interactive job.

    Rather an evaluation, and rather one that holds the job's model.
    """
    able = [worker for worker in workers if worker.part is not None and _can_release(worker.part)]
    able.sort(key=lambda worker: (worker.part is not None and worker.part.whole.job.timed, not worker.holds(job)))
    return able[0] if able else None


def _can_release(part: Part) -> bool:
    job = part.whole.job
    return (isinstance(job, EvaluateJob) or job.timed) and not part.released and not part.held


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
    if job.job.timed:
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


OnEvent = Callable[[Event], None]
MakeClient = Callable[[OnEvent], EngineClient]
"""Maker of one engine's client from the receiver of its events."""
OpenMachine = Callable[[str], Sequence[MakeClient]]
"""Makers of a machine's engines by its name; raises WinaError for one that is not known or not reached."""


def no_machines(name: str) -> Sequence[MakeClient]:
    """Raise WinaError: this pool has the engines of this computer alone."""
    raise WinaError(f"This program computes on this computer alone, and not on {name}.")


class Workers:
    """The engines of a pool. Apart from `pid`, all is used on the pool's thread."""

    def __init__(
        self,
        makers: Sequence[MakeClient],
        light: MakeClient | None,
        on_event: Callable[[Worker, Event], None],
        post: Callable[[Callable[[], None]], None],
        machines: OpenMachine,
    ) -> None:
        """`makers` and `light` make the engines of this computer; `post` runs an action on the pool's thread."""
        self._on_event = on_event
        self._post = post
        self._machines = machines
        self._all: list[Worker] = []
        for make in makers:
            self._add(make)
        self.light = self._add(light, light=True) if light is not None else None

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def pid(self) -> int | None:
        """Process id of the first engine that runs; None while there is none."""
        return next((pid for worker in self._all if (pid := worker.client.pid) is not None), None)

    def serving(self, job: SharedJob) -> list[Worker]:
        """Return the engines that may compute a job."""
        return [worker for worker in self._all if worker.machine in job.machines]

    def working_on(self, job: SharedJob) -> list[tuple[Worker, Part]]:
        """Return the engines that compute a job, each with its part."""
        return [(worker, worker.part) for worker in self._all if worker.part is not None and worker.part.whole is job]

    def missing(self, machines: Iterable[str]) -> set[str]:
        """Return the machines whose engines are not known yet."""
        return set(machines) - {worker.machine for worker in self._all}

    def open(self, machines: Iterable[str], opened: Callable[[str], None]) -> None:
        """Find the engines of machines on a thread of its own, since it may ask them; then call `opened` with the
        error, which is empty where there is none."""
        threading.Thread(target=self._find, args=(machines, opened), name="machines", daemon=True).start()

    def stop(self) -> None:
        """End all engines at once."""
        stops = [threading.Thread(target=worker.client.stop) for worker in self._all]
        for stop in stops:
            stop.start()
        for stop in stops:
            stop.join()

    def _find(self, machines: Iterable[str], opened: Callable[[str], None]) -> None:
        found: dict[str, Sequence[MakeClient]] = {}
        error = ""
        try:
            for machine in machines:
                found[machine] = self._machines(machine)
        except WinaError as refusal:
            error = str(refusal)
        self._post(partial(self._opened, found, opened, error))

    def _opened(self, found: Mapping[str, Sequence[MakeClient]], opened: Callable[[str], None], error: str) -> None:
        new = self.missing(found)
        for machine, makers in found.items():
            for make in makers if machine in new else ():
                self._add(make, machine=machine)
        opened(error)

    def _add(self, make: MakeClient, *, light: bool = False, machine: str = LOCAL) -> Worker:
        place = len(self._all)
        client = make(lambda event: self._post(lambda: self._on_event(self._all[place], event)))
        self._all.append(Worker(place + 1, client, light=light, machine=machine))
        return self._all[-1]


# ---- the number of engines for this machine, and the device of each --------------------------------------------------

BATCH_NICENESS = 5
"""Niceness of engines beside a light one, which then gets three times their share of a busy processor."""


def engine_count() -> int:
    """Return one engine for each visible CUDA device, at least one."""
    return max(1, len(visible_devices()))


def engine_environments(engines: int) -> tuple[dict[str, str], ...]:
    """Return the environment variables of each engine: its own device, or its share of the processor's threads."""
    if engines == 1:
        return ({},)
    devices = visible_devices()
    if devices:
        return tuple({"CUDA_VISIBLE_DEVICES": devices[place % len(devices)]} for place in range(engines))
    threads = max(1, _threads() // engines)
    return tuple({"OMP_NUM_THREADS": str(threads)} for _ in range(engines))


def light_environment() -> dict[str, str]:
    """Return the environment variables of an engine beside the others: the last device, half of the threads.

    It prepares at its start what its first job would wait for (`WINA_ENGINE_WARM`).
    """
    devices = visible_devices()
    place = {"CUDA_VISIBLE_DEVICES": devices[-1]} if devices else {}
    return {**place, "OMP_NUM_THREADS": str(max(1, _threads() // 2)), "WINA_ENGINE_WARM": "1"}


def behind(environment: dict[str, str]) -> dict[str, str]:
    """Return an engine's environment with a lower priority, behind the window and the light engine."""
    return {**environment, "WINA_ENGINE_NICE": str(BATCH_NICENESS)}


def _threads() -> int:
    """Return the threads that one engine would use."""
    requested = os.environ.get("OMP_NUM_THREADS", "")
    if requested.isdecimal():
        return int(requested)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
