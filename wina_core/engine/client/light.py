"""The light engine of a pool: whether memory allows it, by the sizes of files and without torch, and its life from its
start ahead of its first job to its end when nobody needs it."""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from wina_core.engine.client.workers import Worker, loading_models, timed_work
from wina_core.files.hardware import MEMORY_VARIABLE, machine_memory, visible_devices
from wina_core.jobs import CostJob, Job
from wina_core.model_info.sizes import WORKING, weights_bytes
from wina_core.specs import ModelSource

ENGINE_BYTES = 1 << 30
"""Memory of an engine with its libraries, before any model (0.7 GiB measured)."""
MARGIN = 0.1
"""Share of the machine's memory that must stay available."""
_FRESH_SECONDS = 5.0
"""Time for which an answer of the GPU's driver, which takes up to 2 s, is used again."""


def has_room(job: Job | None, loading: Iterable[ModelSource | None] = ()) -> bool:
    """Return whether memory allows a second engine that computes this job; for None, one without a model.

    `loading` are models that other engines may yet take memory for. A model of unknown size has no room; nor has any
    where the user limits the memory, which is that of one engine.
    """
    models = [*loading, None if job is None or isinstance(job, CostJob) else job.first_model]
    needed = WORKING * sum(weights_bytes(each) for each in models if each is not None)
    if needed and os.environ.get(MEMORY_VARIABLE):
        return False
    free, total = machine_memory()
    if free - needed - ENGINE_BYTES < MARGIN * total:
        return False
    devices = visible_devices() if needed else ()
    return not devices or _gpu_free(devices[-1], time.monotonic() // _FRESH_SECONDS) > needed + ENGINE_BYTES


@lru_cache(maxsize=4)
def _gpu_free(device: str, _time: float) -> float:
    """Return the free bytes of a CUDA device at about a time; 0 if the driver does not answer."""
    query = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits", "-i", device]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=2.0, check=True)
        return float(answer.stdout.split()[0]) * 2**20
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return 0.0


IDLE_SECONDS = 300.0
"""Time without a job of its own after which the light engine ends."""
AHEAD_SECONDS = 3.0
"""Time that a batch job has run before the light engine starts ahead of its first job: short ones need none."""

HasRoom = Callable[[Job | None, Iterable[ModelSource | None]], bool]
"""`has_room`."""


class LightEngine:
    """The light engine of a pool: started with batch work, ended when nobody needs it.

    While a sweep is timed it neither starts nor computes, as it would disturb the timings.
    """

    def __init__(
        self,
        worker: Worker,
        workers: Sequence[Worker],
        room: HasRoom,
        post: Callable[[Callable[[], None]], None],
        hand_out: Callable[[], None],
    ) -> None:
        """`post` runs an action on the pool's thread, on which all methods are called; `hand_out` gives out jobs."""
        self._worker = worker
        self._workers = workers
        self._room = room
        self._post = post
        self._hand_out = hand_out
        self._ahead: threading.Timer | None = None
        self._unused = False
        """True after it ended without a job: it does not start ahead again before it has had one."""

    def engine_for(self, job: Job) -> Worker | None:
        """Return the engine if it could begin a job."""
        light = self._worker
        if not light.free or not job.interactive or timed_work(self._workers):
            return None
        return light if light.holds(job) or self._room(job, loading_models(self._workers)) else None

    def disturbs(self, job: Job) -> bool:
        """Return whether a sweep has to wait for the end of its job."""
        return job.timed and not self._worker.free

    def on_begin(self, worker: Worker, job: Job) -> None:
        """Start soon after a batch job has begun, unless that ends before; end for a sweep."""
        if worker.light:
            self._unused = False
        elif job.timed:
            self._end()
        elif not job.interactive:
            self._start_soon()

    def end_if_idle(self) -> None:
        """End if nobody has needed the engine for a while."""
        light = self._worker
        if light.free and light.client.pid is not None and time.monotonic() - light.idle_since >= IDLE_SECONDS:
            self._unused = light.model is None
            self._end()

    def forget_start(self) -> None:
        """Cancel a start that is due."""
        if self._ahead is not None:
            self._ahead.cancel()

    def _start_soon(self) -> None:
        if self._unused or self._worker.client.pid is not None or (self._ahead is not None and self._ahead.is_alive()):
            return
        self._ahead = threading.Timer(AHEAD_SECONDS, self._post, [self._start])
        self._ahead.daemon = True
        self._ahead.start()

    def _start(self) -> None:
        """Start the engine before its first job, if a batch job runs and memory allows."""
        light = self._worker
        busy = any(worker.part is not None for worker in self._workers if not worker.light)
        if not busy or not light.free or light.client.pid is not None or timed_work(self._workers):
            return
        if self._room(None, loading_models(self._workers)):
            light.idle_since = time.monotonic()
            light.client.start()

    def _end(self) -> None:
        """Stop the engine if it has no job, on a thread of its own, as this takes seconds."""
        light = self._worker
        if not light.free or light.client.pid is None:
            return
        light.ending, light.model = True, None

        def ended() -> None:
            light.ending = False
            self._hand_out()  # the jobs that came meanwhile

        def stop() -> None:
            light.client.stop()
            self._post(ended)

        threading.Thread(target=stop, name="end of the light engine", daemon=True).start()
