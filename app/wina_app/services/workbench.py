"""The workbench that all pages share: workspace, jobs, engines and store."""

import logging
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from PySide6.QtCore import QObject, Signal

from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.job_list import JobList
from wina_app.services.machines import Machines, only_here
from wina_app.services.settings import Settings
from wina_app.services.store_thread import StoreThread
from wina_app.services.threads import Checks, EngineThread, Fetcher
from wina_app.services.workspace import Workspace
from wina_app.style.number_format import duration
from wina_core.engine.client.background import BackgroundProcess, Handover
from wina_core.engine.client.rest import rest_of, resumed
from wina_core.jobs import (
    Cancel,
    CompletionFinished,
    Done,
    Event,
    Failed,
    Job,
    Log,
    Measured,
    Move,
    Partial,
    Pause,
    Prioritize,
    Priority,
    Ready,
    Result,
    Resume,
    RunFailed,
    RunStarted,
    Submit,
    Token,
)
from wina_core.jobs.hosted import FetchJob, HostedJob
from wina_core.model_info.small_models import SmallModel
from wina_core.records import Environment

_log = logging.getLogger("wina_app.jobs")
_engine_log = logging.getLogger("wina_core.engine")
_engine_log.setLevel(logging.DEBUG)  # what an engine's libraries print belongs to its job's log

_Stored = RunStarted | Partial | Measured | CompletionFinished | RunFailed | Result | Failed | Done
"""Events for the recorder."""
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Workbench(QObject):
    """Path of jobs to the engines and of results to the store; ends both in the right order."""

    environment_changed = Signal()
    results_changed = Signal()
    """The store has changed."""
    streamed = Signal(object)
    """Events that are shown as they come: Token and CompletionFinished."""
    storing_failed = Signal(str)
    unfinished_found = Signal(int)
    """Number of jobs of programs that died, which `resume_unfinished` continues."""
    background_refused = Signal(str)
    """Reason why jobs cannot run in the background, after `keep_running`."""
    stopped = Signal()
    """The engines are gone and everything is on disk, after `stop`."""

    def __init__(
        self,
        engine: EngineThread,
        store: StoreThread,
        settings: Settings,
        parent: QObject | None = None,
        checks: Checks | None = None,
    ) -> None:
        super().__init__(parent)
        self.checks = checks or Checks(self)
        """Threads for what needs neither an engine nor the database."""
        self.workspace = Workspace()
        self.jobs = JobList()
        self.settings = settings
        self.machines = Machines(self.checks, settings)
        self.fetcher = Fetcher(self)
        self.environment: Environment | None = None
        self.timing: tuple[Environment, ...] = ()
        """Environments of timings on the engine's devices, that of "auto" first."""
        self.notice = ""
        """The engine's sentences on missing C++ kernels; empty if nothing is missing."""
        self._engine = engine
        self.store = store
        """The thread for everything that blocks."""
        self._ready: tuple[Ready, ...] = ()
        self._retrying: set[str] = set()
        self._hosted: dict[str, Callable[[], object]] = {}
        """Functions that end hosted jobs, by their ids."""
        self._interrupted = False
        self._refused: set[str] = set()
        """Ids of the jobs whose results the database has refused; they are interrupted, and can be resumed."""
        self._background: BackgroundProcess | None = None
        """The process that computes the jobs once this window has stopped."""
        self._threads = {engine, store}
        """Threads that have not ended."""
        engine.received.connect(self._on_event)
        engine.finished.connect(self._on_engine_finished)
        self.jobs.ended.connect(self._log_end)
        store.changed.connect(self.results_changed)
        store.finished.connect(self._on_store_finished)
        store.opened.connect(self._on_opened)
        self.stopped.connect(self.workspace.stop)
        self.fetcher.reported.connect(self.jobs.apply)

    @property
    def engine_pid(self) -> int | None:
        return self._engine.pid

    def start(self) -> None:
        """Open the store and start the engine."""
        self.store.start()
        self._engine.start()
        self.machines.load()

    def submit(self, job: Job, title: str, machines: tuple[str, ...] | None = None) -> str:
        """Queue a job and return the id of its entry in `jobs`. Its runs must be saved before.

        It runs on `machines`, by default the chosen ones.
        """
        job_id, machines = uuid.uuid4().hex[:12], self.machines.chosen if machines is None else machines
        self.jobs.add(job_id, title, job, machines)
        self._send(Submit(job_id=job_id, job=job, machines=machines, title=title))
        _log.info("queued: %s", title, extra={"job": job_id})
        return job_id

    def host(self, job: HostedJob, title: str, stop: Callable[[], object], job_id: str = "") -> str:
        """List a job that no engine gets and return the id of its entry; its owner applies events, `stop` ends it."""
        job_id = job_id or uuid.uuid4().hex[:12]
        self._hosted[job_id] = stop
        self.jobs.add(job_id, title, job)
        return job_id

    def fetch_model(self, model: SmallModel) -> str:
        """Fetch a small model; return the id of its entry."""
        job_id, job = uuid.uuid4().hex[:12], FetchJob(model=model.name)
        self.jobs.add(job_id, f"Fetch {model.title}", job)
        self._begin_fetch(job_id, job)
        return job_id

    def _begin_fetch(self, job_id: str, job: FetchJob) -> None:
        self._hosted[job_id] = partial(self.fetcher.stop, job_id)
        self.fetcher.begin(job_id, job)

    def _send(self, submit: Submit) -> None:
        # Kept first: if this process dies, the next start offers to resume the job.
        self.store.ask(lambda store: store.keep_jobs([submit]))
        self._engine.send(submit)

    def retry(self, job_id: str) -> None:
        """Compute what a failed or cancelled job left undone, under the same id; stored results stay."""
        entry = self.jobs[job_id]
        job, points = entry.job, dict(entry.points)
        if not entry.can_retry or job_id in self._retrying:
            return
        if isinstance(job, FetchJob):
            self.jobs.requeue(job_id, job)
            self._begin_fetch(job_id, job)
        if isinstance(job, HostedJob):
            return
        self._retrying.add(job_id)
        self.store.ask(
            lambda store: rest_of(job, store, points),
            lambda rest: self._requeue(job_id, rest),
            lambda text: self._refuse_retry(job_id, text),
        )

    def _requeue(self, job_id: str, rest: Job | None) -> None:
        self._retrying.discard(job_id)
        if job_id not in self.jobs:  # cleared away meanwhile
            return
        entry = self.jobs[job_id]
        if rest is None:
            self.jobs.complete(job_id)
            _log.info("nothing is missing: %s", entry.title, extra={"job": job_id})
            return
        self.jobs.requeue(job_id, rest)
        self._send(_submit_of(self.jobs[job_id]))
        _log.info("queued again: %s", entry.title, extra={"job": job_id})

    def _refuse_retry(self, job_id: str, text: str) -> None:
        self._retrying.discard(job_id)
        self.storing_failed.emit(text)

    def move(self, job_id: str, before: str | None) -> None:
        """Place a waiting job before another one, or at the end."""
        if self.jobs[job_id].waiting:
            self._engine.send(Move(job_id=job_id, before=before))

    def prioritize(self, job_id: str, priority: Priority) -> None:
        if self.jobs[job_id].waiting:
            self._engine.send(Prioritize(job_id=job_id, priority=priority))

    def cancel(self, job_id: str) -> None:
        """Cancel a job; stored results stay. A server finishes its answer."""
        self.jobs.cancelling(job_id)
        if job_id in self._hosted:
            self._hosted[job_id]()
        else:
            self._engine.send(Cancel(job_id=job_id))

    def pause(self, job_id: str) -> None:
        """Pause a job after its batch, with all it has in memory; a waiting one stays in the queue."""
        self.jobs.pausing(job_id)
        self._engine.send(Pause(job_id=job_id))

    def resume(self, job_id: str) -> None:
        self._engine.send(Resume(job_id=job_id))

    def resume_unfinished(self) -> None:
        """Continue the jobs of programs that died, where they stopped."""
        self.store.ask(resumed, self._submit_resumed, self.storing_failed.emit)

    def _submit_resumed(self, submits: list[Submit]) -> None:
        for submit in submits:
            self.jobs.add(submit.job_id, submit.title or "Job", submit.job, submit.machines)
            self._send(submit)

    def discard_unfinished(self) -> None:
        """Forget the jobs of programs that died; their stored results stay."""
        self.store.ask(
            lambda store: store.forget_jobs([job.job_id for job in store.unfinished_jobs(take=True)]),
            refused=self.storing_failed.emit,
        )

    def keep_running(self) -> None:
        """Leave the jobs to a process of their own and stop; `stopped` or `background_refused` follows.

        What the user waits for in front of the screen is cancelled.
        """
        entries = [entry for entry in self.jobs.active if not entry.is_interactive]
        if not entries:  # a process would have nothing to compute
            self.stop(interrupted=True)
            return
        submits = [(_submit_of(entry), dict(entry.points), entry.begun) for entry in entries]
        engines = self.settings.preferences.engines

        def hand_over(store: Any) -> BackgroundProcess:
            jobs = []
            for submit, points, started in submits:
                job = rest_of(submit.job, store, points) if started else submit.job
                if job is not None:
                    jobs.append(submit.model_copy(update={"job": job}))
            database = store.url.render_as_string(hide_password=False)
            return BackgroundProcess(Handover(database=database, engines=engines, jobs=tuple(jobs)))

        def stop(process: BackgroundProcess) -> None:
            self._background = process
            self.stop(interrupted=True)

        self.store.ask(hand_over, stop, self.background_refused.emit)

    def stop(self, *, interrupted: bool = False) -> None:
        """Cancel all jobs, stop the engines and write the last results; `stopped` follows.

        With `interrupted` their runs are marked so, not as cancelled by the user, and the next start offers to resume
        the jobs.
        """
        self._interrupted = interrupted
        self.fetcher.stop_all()
        for entry in self.jobs.active:
            self.jobs.cancelling(entry.id)
        self._engine.finish()

    def hardware_of(self, machines: Sequence[str]) -> str:
        """Return the name of this computer's hardware; empty while it is unknown, and for jobs of other machines."""
        return self.environment.hardware if self.environment is not None and only_here(machines) else ""

    def timing_environment(self, device: str, machines: Sequence[str] = ()) -> Environment | None:
        """Return the environment of timings on a device such as "auto" or "cuda:1"; None while it is unknown, and for
        machines other than this computer."""
        if not only_here(machines):
            return None
        environments = self.timing or ((self.environment,) if self.environment is not None else ())
        kind = device.partition(":")[0]
        return next((environment for environment in environments if kind in ("auto", environment.device)), None)

    def _on_event(self, event: Event) -> None:
        match event:
            case Ready():
                self.environment, self.timing, self._ready = event.environment, event.timing, (event,)
                self.notice = event.notice
                self.environment_changed.emit()
            case Log():
                _engine_log.log(_LEVELS[event.level], "%s", event.text, extra={"job": event.job_id or ""})
            case Failed() | RunFailed():
                text = "\n".join(filter(None, (event.error, event.detail)))
                _engine_log.error("%s", text, extra={"job": event.job_id})
        if isinstance(event, _Stored):
            # Not `cancelled`, which would mark the runs as cancelled by the user.
            is_interrupted = self._interrupted or event.job_id in self._refused
            self._record(Done(job_id=event.job_id) if is_interrupted and isinstance(event, Done) else event)
        if isinstance(event, Token | CompletionFinished):
            self.streamed.emit(event)
        self.jobs.apply(event)

    def _log_end(self, job_id: str) -> None:
        self._hosted.pop(job_id, None)
        entry = self.jobs[job_id]
        took = f" after {duration(entry.seconds)}" if entry.started else ""
        _log.info("%s%s: %s", entry.phase, took, entry.title, extra={"job": job_id})

    def _record(self, event: _Stored) -> None:
        job_id = event.job_id
        if job_id not in self.jobs:  # no job of ours
            return
        messages = (*self._ready, Submit(job_id=job_id, job=self.jobs[job_id].job), event)
        self.store.record(messages, lambda text: self._on_storing_failed(job_id, text))
        # Interrupted jobs stay in the database, where the next start finds them.
        if isinstance(event, Failed | Done) and not self._interrupted and job_id not in self._refused:
            self.store.ask(lambda store: store.forget_jobs([job_id]))

    def _on_storing_failed(self, job_id: str, text: str) -> None:
        """Cancel the job: its next results would be lost too. It can be resumed."""
        self.storing_failed.emit(text)
        self._refused.add(job_id)
        if job_id in self.jobs and self.jobs[job_id].active:
            self.cancel(job_id)

    def _on_opened(self, _store: object) -> None:
        self.store.ask(
            lambda opened: len(opened.unfinished_jobs()),
            lambda count: self.unfinished_found.emit(count) if count else None,
        )

    def _on_engine_finished(self) -> None:
        self._threads.discard(self._engine)
        if self._threads:
            # After the engines, whose last results it still has to write.
            self.store.finish()
        else:
            self._end()

    def _on_store_finished(self) -> None:
        self._threads.discard(self.store)
        if not self._threads:
            self._end()

    def _end(self) -> None:
        # Only now, when this window has released engines and database.
        if self._background is not None:
            self._background.begin()
        self.stopped.emit()


def _submit_of(entry: JobEntry) -> Submit:
    assert not isinstance(entry.job, HostedJob)
    return Submit(job_id=entry.id, job=entry.job, priority=entry.priority, machines=entry.machines, title=entry.title)
