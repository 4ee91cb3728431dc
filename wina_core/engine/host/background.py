"""Background jobs as a command sees them: list, follow, cancel and start them, without a window."""

import queue
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from wina_core.engine.host.client import HostClient, attach, open_host
from wina_core.errors import WinaError
from wina_core.jobs import (
    Attached,
    Cancel,
    Detach,
    Detached,
    Done,
    Event,
    Failed,
    JobStatus,
    Log,
    Submit,
)

ANSWER_SECONDS = 60.0
"""Longest wait for the host's answer; opening a database that is being upgraded takes seconds."""

E = TypeVar("E", bound=Event)


class BackgroundJobs:
    """Connection to a database's background host, or to a new host."""

    def __init__(self, client: Callable[[Callable[[Event], None]], HostClient | None]) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._client = client(self._events.put)
        self.jobs: dict[str, JobStatus] = {}
        """Jobs that have not ended, by id; empty without a host."""
        if self._client is not None:
            self._client.start()
            self._wait(Attached)

    def next_event(self, seconds: float) -> Event | None:
        """Return the next event, or None after some seconds without one."""
        try:
            event = self._events.get(timeout=seconds)
        except queue.Empty:
            return None
        match event:
            case Attached():
                self.jobs |= {status.submit.job_id: status for status in event.jobs}
            case Done() | Failed():
                self.jobs.pop(event.job_id, None)
        return event

    def cancel(self, jobs: Collection[str]) -> None:
        """Cancel jobs and return once they have ended."""
        for job_id in jobs:
            self._send(Cancel(job_id=job_id))
        while any(job_id in self.jobs for job_id in jobs):
            self._wait(Done, Failed)

    def submit(self, jobs: Sequence[Submit], database: str) -> None:
        """Queue jobs, which the host records in the database from now on."""
        for submit in jobs:
            self._send(submit)
        self._send(Detach(database=database))
        answer = self._wait(Detached)
        if answer.error:
            raise WinaError(answer.error)

    def leave(self) -> None:
        """Close the connection; the jobs continue."""
        if self._client is not None:
            self._client.leave()

    def _send(self, request: Submit | Cancel | Detach) -> None:
        assert self._client is not None
        self._client.send(request)

    def _wait(self, *kinds: type[E]) -> E:
        while (event := self.next_event(ANSWER_SECONDS)) is not None:
            if isinstance(event, kinds):
                return event
            if isinstance(event, Log) and event.level == "error" and kinds == (Attached,):  # it could not be started
                raise WinaError(event.text)
        raise WinaError(f"The job host did not answer for {ANSWER_SECONDS:.0f} s; try again, or end its process.")


def background_jobs(database: str | None) -> BackgroundJobs:
    """Attach to the database's background host, if there is one."""
    return BackgroundJobs(lambda on_event: attach(on_event, database))


def run_in_background(jobs: Sequence[Submit], database: str, engines: int) -> None:
    """Queue jobs at the database's background host, which is started if there is none. Raises WinaError if it refuses.

    Their runs must be saved before, by a store that is open until this returns.
    """
    host = BackgroundJobs(lambda on_event: open_host(on_event, engines, database))
    try:
        host.submit(jobs, database)
    finally:
        host.leave()
