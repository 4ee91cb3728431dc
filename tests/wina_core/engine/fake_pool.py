"""A pool over engines that say what a test has them say."""

import threading
from collections.abc import Callable, Iterable, Mapping

from tests.wina_core.engine.engine_events import PATIENCE, Events
from wina_core.engine.client.job_queue import OpenMachine, no_machines
from wina_core.engine.client.pool import EnginePool
from wina_core.jobs import (
    Done,
    EngineRequest,
    EvaluateJob,
    Event,
    Failed,
    Job,
    Partial,
    PendingRun,
    Priority,
    RunFinished,
    RunStarted,
    Started,
    Submit,
)
from wina_core.records import UnitRecord
from wina_core.specs import ModelSource


class FakeClient:
    """An engine's client that remembers what it was sent, and says what the test has it say."""

    def __init__(self, on_event: Callable[[Event], None], _environment: Mapping[str, str], eager: bool) -> None:
        self.pid: int | None = None
        self.available = True
        self.started, self.stopped = threading.Event(), threading.Event()
        self.sent: list[EngineRequest] = []
        self._eager = eager
        self._emit = on_event
        self.busy = False
        self._arrived = threading.Condition()

    def start(self) -> None:
        self.pid = 1
        self.started.set()

    def send(self, request: EngineRequest) -> None:
        if isinstance(request, Submit):  # first: a test that sees the job may complete it at once
            self.pid = 1
            self.say(Started(job_id=request.job_id))
        with self._arrived:
            self.sent.append(request)
            self.busy |= isinstance(request, Submit)
            self._arrived.notify_all()
        if self._eager and isinstance(request, Submit):
            self.complete()

    def stop(self) -> None:
        self.pid = None
        self.stopped.set()
        if self.busy:
            self.say(Done(job_id=self.job_id, cancelled=True))

    def say(self, *events: Event) -> None:
        for event in events:
            if isinstance(event, Done | Failed):
                self.busy = False
            self._emit(event)

    @property
    def submits(self) -> list[Submit]:
        return [request for request in self.sent if isinstance(request, Submit)]

    @property
    def job_id(self) -> str:
        return self.submits[-1].job_id

    @property
    def job(self) -> Job:
        return self.submits[-1].job

    @property
    def runs(self) -> tuple[PendingRun, ...]:
        """The runs of the last job."""
        assert isinstance(self.job, EvaluateJob)
        return self.job.runs

    def given(self, count: int = 1, kind: type[EngineRequest] = Submit) -> None:  # type: ignore[valid-type]
        """Wait until it was given so many jobs, or told so many other things."""
        with self._arrived:
            told = lambda: sum(isinstance(request, kind) for request in self.sent) >= count  # noqa: E731
            assert self._arrived.wait_for(told, PATIENCE), f"only {self.sent}"

    def begin(self, pending: PendingRun, *units: str, seconds: float = 1.0) -> None:
        """Begin a run of the last job, and measure some of its units."""
        name = pending.spec.content_hash()
        self.say(RunStarted(job_id=self.job_id, run=name))
        for unit in units:
            record = UnitRecord(run=name, unit=unit, metrics=(), seconds=seconds)
            self.say(Partial(job_id=self.job_id, unit=record))

    def finish(self, *runs: PendingRun) -> None:
        """Compute these runs of the last job."""
        for pending in runs:
            self.begin(pending, *pending.units)
            self.say(RunFinished(job_id=self.job_id, run=pending.spec.content_hash()))

    def complete(self) -> None:
        """Compute the last job."""
        if isinstance(self.job, EvaluateJob):
            self.finish(*self.runs)
        self.say(Done(job_id=self.job_id))

    def cancelled(self) -> None:
        """End the last job as cancelled."""
        self.say(Done(job_id=self.job_id, cancelled=True))

    def die(self, end: str = "was killed from outside", not_begun: bool = False) -> Failed:
        """End the process under the last job; return what the client says."""
        error, detail = "The engine was killed.", "tail"
        failed = Failed(job_id=self.job_id, error=error, detail=detail, engine_end=end, not_begun=not_begun)
        self.say(failed)
        return failed


class Pool:
    """A pool over fake engines."""

    def __init__(
        self,
        engines: int = 1,
        eager: bool = False,
        light: bool = False,
        client: type[FakeClient] = FakeClient,
        machines: OpenMachine = no_machines,
    ) -> None:
        self.room = True
        """Whether memory allows the light engine, the last of the clients."""
        self.loading: list[ModelSource | None] = []
        """Models that were being loaded when the pool last asked for memory for a job."""
        self.events = Events()
        self.clients: list[FakeClient] = []

        def make(on_event: Callable[[Event], None], environment: Mapping[str, str]) -> FakeClient:
            self.clients.append(client(on_event, environment, eager))
            return self.clients[-1]

        self.pool = EnginePool(
            self.events,
            [{}] * engines,
            make,  # type: ignore[arg-type]  # all that it needs of one
            light={} if light else None,
            room=self._has_room,
            machines=machines,
        )

    def _has_room(self, job: Job | None, loading: Iterable[ModelSource | None]) -> bool:
        if job is not None:
            self.loading = list(loading)
        return self.room

    def submit(self, job_id: str, job: Job, engines: int = 0, priority: Priority | None = None) -> None:
        """Submit a job, and wait until so many engines have something to do."""
        self.pool.send(Submit(job_id=job_id, job=job, priority=priority))
        for client in self.clients[:engines]:
            client.given()

    def done(self, *job_ids: str) -> None:
        """Wait until jobs have ended well."""
        for job_id in job_ids:
            assert self.events.end(job_id) == Done(job_id=job_id)

    def settle(self) -> None:
        """Wait until the pool has seen to everything so far."""
        seen = threading.Event()
        self.pool._post(seen.set)
        assert seen.wait(PATIENCE)
