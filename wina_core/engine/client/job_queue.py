"""The pool's one queue of jobs, by priority, then as they came or were moved; and the thread that works on it.

A batch job that has begun runs to its end, unless it is paused or has to make room (see `pool`).
"""

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from wina_core.engine.client.shared_job import SharedJob
from wina_core.jobs import PRIORITIES, Priority, Queued


class JobQueue:
    """All jobs that have not ended, those that have begun included."""

    def __init__(self) -> None:
        self._jobs: dict[str, SharedJob] = {}

    def __iter__(self) -> Iterator[SharedJob]:
        return iter(list(self._jobs.values()))

    def get(self, job_id: str) -> SharedJob | None:
        """Return the job of an id, None where there is none."""
        return self._jobs.get(job_id)

    def remove(self, job: SharedJob) -> None:
        """Drop a job that has ended."""
        del self._jobs[job.id]

    def add(self, job: SharedJob) -> Queued:
        """Place a job ahead of all with a lower priority, waiting or begun."""
        lower = PRIORITIES[_rank(job.state.priority) + 1 :]
        return self._place(
            job, next((other for other in self if other is not job and other.state.priority in lower), None)
        )

    def prioritize(self, job: SharedJob, priority: Priority) -> Queued:
        """Place a job behind all others of a priority."""
        job.state = replace(job.state, priority=priority)
        return self.add(job)

    def move(self, job: SharedJob, before: str | None) -> Queued:
        """Place a job before a waiting one, at the end for None, and first where the other has begun meanwhile.

        Its priority changes no more than the order by priority requires.
        """
        others = [other for other in self if other is not job and not other.begun]
        places = (place for place, other in enumerate(others) if other.id == before)
        place = len(others) if before is None else next(places, 0)
        least = _rank(others[place - 1].state.priority) if place else 0
        most = _rank(others[place].state.priority) if place < len(others) else len(PRIORITIES) - 1
        priority = PRIORITIES[min(max(_rank(job.state.priority), least), most)]
        job.state = replace(job.state, priority=priority)
        return self._place(job, others[place] if place < len(others) else None)

    def place(self, job: SharedJob, reason: str = "") -> Queued:
        """Return the place of a job, with the reason for waiting there."""
        order = list(self)
        after = order[order.index(job) + 1 :]
        before = after[0].id if after else None
        return Queued(job_id=job.id, priority=job.state.priority, before=before, reason=reason)

    def _place(self, job: SharedJob, before: SharedJob | None) -> Queued:
        order = [other for other in self if other is not job]
        order.insert(order.index(before) if before else len(order), job)
        self._jobs = {other.id: other for other in order}
        return Queued(job_id=job.id, priority=job.state.priority, before=before.id if before else None)


def _rank(priority: Priority) -> int:
    """Return the place of a priority, 0 for the most urgent."""
    return PRIORITIES.index(priority)


# ---- actions that run one after the other on one thread --------------------------------------------------------------


class Inbox:
    """Queue of actions with a thread of its own, which starts with the first action and ends after `close`.

    It calls `idle` after every action, and after `seconds` without one.
    """

    def __init__(self, idle: Callable[[], None], seconds: float) -> None:
        self._idle = idle
        self._seconds = seconds
        self._actions: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._posting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = False

    def post(self, action: Callable[[], None]) -> None:
        """Put an action into the queue."""
        with self._posting:
            self._actions.put(action)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="engine pool", daemon=True)
                self._thread.start()

    def close(self, last: Callable[[], None]) -> None:
        """Run a `last` action, and what is posted until it returns; wait for the end of the thread, if there is one."""
        thread = self._thread
        if thread is None:
            return

        def end() -> None:
            last()
            self._closing = True

        self.post(end)
        if thread is not threading.current_thread():
            thread.join()

    def _work(self) -> None:
        while True:
            try:
                action = self._actions.get(timeout=self._seconds)
            except queue.Empty:
                action = self._idle
            for each in (action, self._idle):
                try:
                    each()
                except Exception:  # one defect must not cost the jobs that follow
                    logging.getLogger(__name__).exception("The engine pool failed to handle a request or an event")
            with self._posting:
                if self._closing and self._actions.empty():
                    self._thread, self._closing = None, False
                    return
