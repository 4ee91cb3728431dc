"""A pool over engines that say what a test has them say."""

import threading
from collections.abc import Callable, Iterable, Mapping

from tests.wina_core.engine.engine_events import PATIENCE, Events
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
        self.started = threading.Event()
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
    def runs(self) -> tuple[PendingRun, ...]:
        """Of the last job it was given."""
        job = self.submits[-1].job
        assert isinstance(job, EvaluateJob)
        return job.runs

    def given(self, count: int = 1, kind: type[EngineRequest] = Submit) -> None:  # type: ignore[valid-type]
        """Wait until it was given so many jobs, or told so many other things."""
        with self._arrived:
            told = lambda: sum(isinstance(request, kind) for request in self.sent) >= count  # noqa: E731
            assert self._arrived.wait_for(told, PATIENCE), f"only {self.sent}"

    def finish(self, *runs: PendingRun) -> None:
        """Compute these runs of the last job."""
        for pending in runs:
            name = pending.spec.content_hash()
            self.say(RunStarted(job_id=self.job_id, run=name))
            for unit in pending.units:
                record = UnitRecord(run=name, unit=unit, metrics=(), seconds=1.0)
                self.say(Partial(job_id=self.job_id, unit=record))
            self.say(RunFinished(job_id=self.job_id, run=name))

    def complete(self) -> None:
        """Compute the last job."""
        if isinstance(self.submits[-1].job, EvaluateJob):
            self.finish(*self.runs)
        self.say(Done(job_id=self.job_id))


class Pool:
    """A pool over fake engines."""

    def __init__(self, engines: int, eager: bool, light: bool = False, client: type[FakeClient] = FakeClient) -> None:
        self.room = True
        """Whether memory allows the light engine, the last of the clients."""
        self.loading: list[ModelSource | None] = []
        """Models that were being loaded when the pool last asked for memory."""
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
        )

    def _has_room(self, _job: Job | None, loading: Iterable[ModelSource | None]) -> bool:
        self.loading = list(loading)
        return self.room

    def submit(self, job_id: str, job: Job, engines: int = 0) -> None:
        """Submit a job, and wait until so many engines have something to do."""
        self.pool.send(Submit(job_id=job_id, job=job))
        for client in self.clients[:engines]:
            client.given()

    def settle(self) -> None:
        """Wait until the pool has seen to everything so far."""
        seen = threading.Event()
        self.pool._post(seen.set)
        assert seen.wait(PATIENCE)
