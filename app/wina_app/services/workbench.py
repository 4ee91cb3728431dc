"""What the pages share: the workspace, the jobs, the engine that does them and the store that keeps their results."""

import logging
import uuid
from typing import Any

from PySide6.QtCore import QObject, Signal

from wina_app.jobs.job_entry import JobEntry, Priority
from wina_app.jobs.job_list import JobList
from wina_app.jobs.job_queue import usual_priority
from wina_app.jobs.job_retry import rest_of
from wina_app.services.engine_thread import EngineThread
from wina_app.services.settings import Settings
from wina_app.services.store_thread import StoreThread
from wina_app.services.workspace import Workspace
from wina_app.style.number_format import duration
from wina_core.engine.protocol import (
    Answered,
    Done,
    Event,
    Failed,
    Job,
    Log,
    Measured,
    Move,
    Partial,
    Pause,
    Ready,
    Result,
    Resume,
    RunFailed,
    RunStarted,
    Submit,
    Token,
)
from wina_core.records import Environment

_log = logging.getLogger("wina_app.jobs")
_engine_log = logging.getLogger("wina_core.engine")
_engine_log.setLevel(logging.DEBUG)  # what an engine's libraries print belongs to its job's log

_STORED = (RunStarted, Partial, Measured, RunFailed, Result, Failed, Done)
"""Events that the recorder has something to do with."""
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Workbench(QObject):
    """Passes jobs to the engine and every result to the store, and ends both in the right order."""

    environment_changed = Signal()
    results_changed = Signal()
    """Something new is in the store."""
    streamed = Signal(object)
    """What is to be seen as it comes and is not stored: Token and Answered."""
    storing_failed = Signal(str)
    stopped = Signal()
    """After `stop`: the engine is gone and everything is on disk."""

    def __init__(
        self, engine: EngineThread, store: StoreThread, settings: Settings, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.workspace = Workspace()
        self.jobs = JobList()
        self.settings = settings
        self.environment: Environment | None = None
        self._engine, self._store = engine, store
        self._recorders: dict[str, Any] = {}
        self._retrying: set[str] = set()
        engine.event.connect(self._on_event)
        engine.finished.connect(self._on_engine_finished)
        self.jobs.ended.connect(self._log_end)
        store.changed.connect(self.results_changed)
        store.finished.connect(self.stopped)

    @property
    def store(self) -> StoreThread:
        """Where everything that blocks is done."""
        return self._store

    @property
    def engine_pid(self) -> int | None:
        """The engine's process id; None while there is no engine."""
        return self._engine.pid

    def start(self) -> None:
        """Open the store and start the engine."""
        self._store.start()
        self._engine.start()

    def submit(self, job: Job, title: str) -> str:
        """Queue a job ahead of what is less urgent; its entry is in `jobs` under the id that is returned.

        Its runs must be saved before.
        """
        job_id = uuid.uuid4().hex[:12]
        ahead_of = self.jobs.add(job_id, title, job, usual_priority(job))
        self._engine.send(Submit(job_id=job_id, job=job, ahead_of=ahead_of))
        _log.info("queued: %s", title, extra={"job": job_id})
        return job_id

    def retry(self, job_id: str) -> None:
        """Do what a job that failed or was cancelled left undone, under the same id; what it stored stays."""
        entry = self.jobs[job_id]
        if not entry.can_retry or job_id in self._retrying:
            return
        self._retrying.add(job_id)
        job, points = entry.job, dict(entry.points)
        self._store.ask(
            lambda store: rest_of(job, points, store),
            lambda rest: self._requeue(job_id, rest),
            lambda text: self._refuse_retry(job_id, text),
        )

    def _requeue(self, job_id: str, rest: Job | None) -> None:
        self._retrying.discard(job_id)
        if job_id not in self.jobs:  # cleared away meanwhile
            return
        entry: JobEntry = self.jobs[job_id]
        if rest is None:
            self.jobs.complete(job_id)
            _log.info("nothing is missing: %s", entry.title, extra={"job": job_id})
            return
        self._engine.send(Submit(job_id=job_id, job=rest, ahead_of=self.jobs.requeue(job_id, rest)))
        _log.info("queued again: %s", entry.title, extra={"job": job_id})

    def _refuse_retry(self, job_id: str, text: str) -> None:
        self._retrying.discard(job_id)
        self.storing_failed.emit(text)

    def move(self, job_id: str, before: str | None) -> None:
        """Place a job that waits ahead of another one, or at the end."""
        if self.jobs[job_id].waiting:
            self._engine.send(Move(job_id=job_id, ahead_of=self.jobs.move(job_id, before)))

    def prioritize(self, job_id: str, priority: Priority) -> None:
        """Place a job that waits among those of this priority."""
        if self.jobs[job_id].waiting:
            self._engine.send(Move(job_id=job_id, ahead_of=self.jobs.prioritize(job_id, priority)))

    def cancel(self, job_id: str) -> None:
        """Ask a job to stop; what it stored stays."""
        self.jobs.cancelling(job_id)
        self._engine.cancel(job_id)

    def pause(self, job_id: str) -> None:
        """Ask a job to stop after its batch and wait, with all it has in memory; one that waits is kept waiting."""
        self.jobs.pausing(job_id)
        self._engine.send(Pause(job_id=job_id))

    def resume(self, job_id: str) -> None:
        """Let a paused job go on."""
        self._engine.send(Resume(job_id=job_id))

    def stop(self) -> None:
        """Cancel all jobs, stop the engine, write what is left; `stopped` follows."""
        for entry in self.jobs.active:
            self.jobs.cancelling(entry.id)
        self._engine.finish()

    def _on_event(self, event: Event) -> None:
        match event:
            case Ready():
                self.environment = event.environment
                self.environment_changed.emit()
            case Log():
                _engine_log.log(_LEVELS[event.level], "%s", event.text, extra={"job": event.job_id or ""})
            case Failed() | RunFailed():
                text = "\n".join(filter(None, (event.error, event.detail)))
                _engine_log.error("%s", text, extra={"job": event.job_id})
        if isinstance(event, _STORED):
            self._record(event)
        if isinstance(event, Token | Answered):
            self.streamed.emit(event)
        self.jobs.apply(event)

    def _log_end(self, job_id: str) -> None:
        entry = self.jobs[job_id]
        took = f" after {duration(entry.seconds)}" if entry.started else ""
        _log.info("%s%s: %s", entry.state, took, entry.title, extra={"job": job_id})

    def _record(self, event: RunStarted | Partial | Measured | RunFailed | Result | Failed | Done) -> None:
        job_id = event.job_id
        try:
            job = self.jobs[job_id].job
        except KeyError:  # no job of ours
            return

        def write(store: Any) -> None:
            from wina_core.store import Recorder

            if job_id not in self._recorders:
                self._recorders[job_id] = Recorder(store, job, self.environment)
            self._recorders[job_id].record(event)
            if isinstance(event, Failed | Done):
                del self._recorders[job_id]

        self._store.write(write, lambda text: self._on_storing_failed(job_id, text))

    def _on_storing_failed(self, job_id: str, text: str) -> None:
        """Computing on would lose what follows too."""
        self.storing_failed.emit(text)
        if job_id in self.jobs and self.jobs[job_id].active:
            self.cancel(job_id)

    def _on_engine_finished(self) -> None:
        self._store.finish()
