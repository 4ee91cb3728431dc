"""The life of a pool's light engine: started ahead of its first job, ended when nobody needs it."""

import threading
import time
from collections.abc import Callable, Iterable

from wina_core.engine.client.job_queue import JobQueue
from wina_core.engine.client.worker import Worker
from wina_core.engine.protocol import Job

IDLE_SECONDS = 300.0
"""Time without any job after which the light engine ends."""


AHEAD_SECONDS = 3.0
"""Time that a batch job has run before the light engine starts ahead of its first job: short ones need none."""


def start_ahead(light: Worker | None, workers: Iterable[Worker], room: Callable[[Job | None], bool]) -> None:
    """Start the light engine before its first job, if a batch job runs and memory allows."""
    busy = any(worker.part is not None for worker in workers if not worker.light)
    if light is not None and light.free and light.client.pid is None and busy and room(None):
        light.idle_since = time.monotonic()
        light.client.start()


def end_idle(
    light: Worker | None,
    jobs: JobQueue,
    post: Callable[[Callable[[], None]], None],
    hand_out: Callable[[], None],
) -> None:
    """Stop the light engine if nobody has needed it for a while, on a thread of its own, as this takes seconds.

    `post` runs an action on the pool's thread, `hand_out` gives it the jobs that came meanwhile.
    """
    if light is None or not light.free or light.client.pid is None or any(True for _ in jobs):
        return
    if time.monotonic() - light.idle_since < IDLE_SECONDS:
        return
    light.ending, light.model = True, None

    def ended() -> None:
        light.ending = False
        hand_out()

    def stop() -> None:
        light.client.stop()
        post(ended)

    threading.Thread(target=stop, name="end of the light engine", daemon=True).start()
