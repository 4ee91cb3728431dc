"""`wina jobs compute`: jobs that another program has handed over, computed by engines of this process."""

import logging
import queue
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from wina_core.engine.client.background import Handover
from wina_core.engine.client.pool import EnginePool, open_engines
from wina_core.errors import WinaError
from wina_core.jobs import Cancel, Done, Event, Failed, Log, RunFailed, Submit
from wina_core.remote.machine_client import open_place
from wina_core.store import Backlog, Store

LOOK_SECONDS = 1.0
"""Interval of looking whether a job was cancelled, and of storing again what the database refused."""

_log = logging.getLogger(__name__)


def compute() -> None:
    """Take over the jobs of the line on standard input, compute them once that is closed, and store their results.

    An empty line on standard output says that they are taken over, else the line has the reason why not. SIGTERM
    interrupts them: they stay unfinished, to be resumed.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it outlives terminals
    handover = Handover.model_validate_json(sys.stdin.buffer.readline())
    try:
        store = Store(handover.database)
    except WinaError as error:
        _answer(str(error))
        return
    with store:
        try:
            store.keep_jobs(handover.jobs)
        except WinaError as error:
            _answer(str(error))
            return
        _answer("")
        sys.stdin.buffer.read()  # until the program that computed them has stopped
        BackgroundJobs(store, handover.engines).run(handover.jobs)


def _answer(refusal: str) -> None:
    """Say whether the jobs are taken over; nobody reads what comes later."""
    sys.stdout.write(f"{' '.join(refusal.split())}\n")
    sys.stdout.close()


class BackgroundJobs:
    """Jobs of this process, computed as they were handed over. One whose row another program deletes is cancelled."""

    def __init__(self, store: Store, engines: int) -> None:
        self._store = store
        self._backlog = Backlog(store)
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._pool: EnginePool = open_engines(self._events.put, engines, machines=open_place)
        self._active: set[str] = set()
        """Ids of the jobs that have not ended."""
        self._listed: frozenset[str] = frozenset()
        """Ids of this process's jobs in the database at the last look."""
        self._interrupted = False
        self._looked = time.monotonic()

    def run(self, jobs: Sequence[Submit]) -> None:
        """Compute the jobs, and return once they have ended."""
        signal.signal(signal.SIGTERM, lambda *_: self._events.put(None))
        self._listed = frozenset(submit.job_id for submit in jobs)
        for submit in jobs:
            self._submit(submit)
        self._look()  # for what was cancelled while the process started
        while self._active and not self._interrupted:
            with suppress(queue.Empty):
                self._take(self._events.get(timeout=LOOK_SECONDS))
            if time.monotonic() - self._looked >= LOOK_SECONDS:
                self._look()
        self._pool.stop()
        while not self._events.empty():
            self._take(self._events.get())
        try:
            if remark := self._backlog.close():
                _log.error("%s", remark)
        except WinaError as error:
            _log.error("Results are lost: %s", error)

    def _submit(self, submit: Submit) -> None:
        try:
            self._backlog.record(submit)
        except WinaError as error:
            _log.error("%s is not computed: %s", submit.title, error)
            return
        self._active.add(submit.job_id)
        self._pool.send(submit)

    def _take(self, event: Event | None) -> None:
        if event is None:
            self._interrupted = True
            return
        match event:
            case Log(level="warning" | "error"):
                _log.warning("%s", event.text)
            case Failed() | RunFailed():
                _log.error("%s", event.error)
            case Done() if self._interrupted:
                event = Done(job_id=event.job_id)  # its runs are interrupted, not cancelled by the user
        ended = [event.job_id] if isinstance(event, Done | Failed) and not self._interrupted else []
        self._active.difference_update(ended)  # whatever the store says
        try:
            self._backlog.record(event)
            if ended:
                self._store.forget_jobs(ended)
        except WinaError as error:
            _log.error("A result could not be stored: %s", error)
            job_id = getattr(event, "job_id", None)
            if job_id in self._active:
                self._pool.send(Cancel(job_id=str(job_id)))  # its next results would be lost too

    def _look(self) -> None:
        """Cancel the jobs whose rows are gone, and store what waits."""
        self._looked = time.monotonic()
        try:
            listed = self._store.kept_jobs()
            for job_id in (self._listed - listed) & self._active:
                self._pool.send(Cancel(job_id=job_id))
            self._listed = listed
            self._backlog.retry()
        except WinaError as error:
            _log.error("%s", error)
