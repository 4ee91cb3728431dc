"""Any order of requests and engines' events: every job ends once, and no arrived measurement is repeated."""

from collections import Counter
from collections.abc import Callable, Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wina_core.engine.client.test_steering import INSPECT, PLAIN, ROTATE, SWEEP
from tests.wina_core.engine.engine_events import evaluate
from tests.wina_core.engine.fake_pool import FakeClient, Pool
from wina_core.jobs import (
    Cancel,
    Done,
    EngineRequest,
    EvaluateJob,
    Event,
    Failed,
    Held,
    Job,
    Move,
    Partial,
    Pause,
    Prioritize,
    Request,
    Resume,
    RunFailed,
    RunFinished,
    RunStarted,
    Submit,
)
from wina_core.records import UnitRecord

KINDS: dict[str, Job] = {"evaluate": evaluate(*PLAIN[:2]), "rotate": ROTATE, "look": INSPECT, "sweep": SWEEP}
UNITS = sum(len(run.units) for run in evaluate(*PLAIN[:2]).runs)
STEPS_OF_OTHERS = 2


class SteppedClient(FakeClient):
    """An engine that computes step by step, and answers requests as a real one does."""

    def __init__(self, on_event: Callable[[Event], None], environment: Mapping[str, str], eager: bool) -> None:
        super().__init__(on_event, environment, eager)
        self._requests: list[EngineRequest] = []
        self._steps: list[Event | None] = []
        self._holding = False

    def send(self, request: EngineRequest) -> None:
        if isinstance(request, Submit):
            self._requests, self._holding, self._steps = [], False, list(self._plan(request))
        else:
            self._requests.append(request)
            if isinstance(request, Resume) and self._holding:
                self._holding = False
                self.say(Held(job_id=request.job_id, held=False))
        super().send(request)

    @staticmethod
    def _plan(submit: Submit) -> list[Event | None]:
        """Return the events of a job; None is work in flight."""
        if not isinstance(submit.job, EvaluateJob):
            return [None] * STEPS_OF_OTHERS
        steps: list[Event | None] = []
        for pending in submit.job.runs:
            name = pending.spec.content_hash()
            steps.append(RunStarted(job_id=submit.job_id, run=name))
            for unit in pending.units:
                record = UnitRecord(run=name, unit=unit, metrics=(), seconds=1.0)
                steps += [None, Partial(job_id=submit.job_id, unit=record)]
            steps.append(RunFinished(job_id=submit.job_id, run=name))
        return steps

    @property
    def _paused(self) -> bool:
        steered = [each for each in self._requests if isinstance(each, Pause | Resume)]
        return bool(steered) and isinstance(steered[-1], Pause)

    def step(self) -> None:
        """Compute a little, or answer a request."""
        if not self.busy:
            return
        asked = {type(each) for each in self._requests}
        if Cancel in asked:
            self.cancelled()
        elif self._paused:
            if not self._holding:
                self._holding = True
                self.say(Held(job_id=self.job_id, held=True))
        elif not self._steps:
            self.say(Done(job_id=self.job_id))
        elif (event := self._steps.pop(0)) is not None:
            self.say(event)


ACTIONS = st.one_of(
    st.tuples(st.just("submit"), st.sampled_from(sorted(KINDS)), st.sampled_from([None, "first", "high", "low"])),
    st.tuples(st.sampled_from(["pause", "resume", "cancel"]), st.integers(0, 5), st.none()),
    st.tuples(st.sampled_from(["move", "prioritize"]), st.integers(0, 5), st.integers(0, 5)),
    st.tuples(st.just("step"), st.integers(0, 2), st.integers(1, 4)),
    st.tuples(st.just("die"), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("room"), st.booleans(), st.none()),
)


@settings(max_examples=40, deadline=None)
@given(engines=st.integers(1, 2), light=st.booleans(), actions=st.lists(ACTIONS, max_size=40))
def test_every_job_ends_once_whatever_the_order(engines: int, light: bool, actions: list[tuple]) -> None:  # type: ignore[type-arg]
    pool = Pool(engines, eager=False, light=light, client=SteppedClient)
    pool.room = False
    jobs: dict[str, Job] = {}

    def send(request: Request) -> None:
        pool.pool.send(request)
        pool.settle()

    try:
        for name, first, second in actions:
            ids = sorted(jobs)
            if name == "submit":
                jobs[job_id := f"{len(jobs):02d}"] = KINDS[first]
                send(Submit(job_id=job_id, job=KINDS[first], priority=second))
            elif name == "room":
                pool.room = first
            elif name in ("step", "die"):
                client = pool.clients[first % len(pool.clients)]
                if name == "die" and client.busy:
                    client.die(not_begun=second)
                for _ in range(second if name == "step" else 0):
                    client.step()  # type: ignore[attr-defined]
                    pool.settle()
            elif first < len(ids):
                job_id = ids[first]
                match name:
                    case "pause" | "resume" | "cancel":
                        send({"pause": Pause, "resume": Resume, "cancel": Cancel}[name](job_id=job_id))
                    case "move":
                        send(Move(job_id=job_id, before=ids[second] if second < len(ids) else None))
                    case "prioritize":
                        send(Prioritize(job_id=job_id, priority=("first", "high", "normal", "low")[second % 4]))
        for job_id in jobs:
            send(Resume(job_id=job_id))
        for _ in range(40 * (len(jobs) + 1)):
            for client in pool.clients:
                client.step()  # type: ignore[attr-defined]
                pool.settle()
        ends = Counter(event.job_id for event in pool.events.all if isinstance(event, Done | Failed))
        assert ends == Counter(list(jobs))
        measured = Counter(
            (event.job_id, event.unit.run, event.unit.unit) for event in pool.events.all if isinstance(event, Partial)
        )
        assert max(measured.values(), default=1) == 1
        computed = {job_id for job_id, job in jobs.items() if isinstance(job, EvaluateJob)}
        computed &= {event.job_id for event in pool.events.all if isinstance(event, Done) and not event.cancelled}
        ended = Counter(
            (event.job_id, event.run) for event in pool.events.all if isinstance(event, RunFinished | RunFailed)
        )
        assert {key: count for key, count in ended.items() if key[0] in computed} == {
            (job_id, each.content_hash()): 1 for job_id in computed for each in PLAIN[:2]
        }
        died = any(name == "die" for name, *_ in actions)
        assert died or not any(isinstance(event, Failed) for event in pool.events.all)
        sent = [request for client in pool.clients for request in client.sent]
        submits = sum(isinstance(request, Submit) for request in sent)
        given_up = sum(isinstance(request, Cancel) for request in sent)
        assert given_up <= 2 * len(actions)
        assert submits <= UNITS * len(jobs) + given_up + len(actions)
    finally:
        pool.pool.stop()
