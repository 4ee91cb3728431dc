"""The life of a pool's light engine: started ahead of its first job, ended when nobody needs it."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from wina_core.engine.client.job_queue import is_interactive, is_timed
from wina_core.engine.client.worker import Worker, loading_models, timed_work
from wina_core.jobs import Job
from wina_core.specs import ModelSource

IDLE_SECONDS = 300.0
"""Time without a job of its own after which the light engine ends."""
AHEAD_SECONDS = 3.0
"""Time that a batch job has run before the light engine starts ahead of its first job: short ones need none."""

HasRoom = Callable[[Job | None, Iterable[ModelSource | None]], bool]
"""`room.has_room`."""


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
        if not light.free or not is_interactive(job) or timed_work(self._workers):
            return None
        return light if light.holds(job) or self._room(job, loading_models(self._workers)) else None

    def disturbs(self, job: Job) -> bool:
        """Return whether a sweep has to wait for the end of its job."""
        return is_timed(job) and not self._worker.free

    def on_begin(self, worker: Worker, job: Job) -> None:
        """Start soon after a batch job has begun, unless that ends before; end for a sweep."""
        if worker.light:
            self._unused = False
        elif is_timed(job):
            self._end()
        elif not is_interactive(job):
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
