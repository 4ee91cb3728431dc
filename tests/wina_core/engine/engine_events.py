"""Jobs for engines under test, and what their client was told, to wait on and look through."""

import threading
from collections.abc import Callable
from typing import TypeVar

from wina_core.compute.reporter import NullReporter
from wina_core.engine.client.pool import EnginePool
from wina_core.errors import Cancelled
from wina_core.jobs import Done, EvaluateJob, Event, Failed, Job, PendingRun, Submit
from wina_core.specs import EvaluationSpec, MethodSpec, ModelSource, RunSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

E = TypeVar("E")
PATIENCE = 120.0
"""Seconds after which a test gives up; nothing is asserted about time itself."""

DEMO = ModelSource(location="demo", dtype="float32")
SHORT = TextSpec(source="demo:heldout", tokens=256, sequence=64)
LONG = TextSpec(source="demo:heldout", tokens=4096, sequence=64)
QUICK = EvaluationSpec(tasks=("demo_choice",), limit=2, fidelity=SHORT)
WINA = MethodSpec(name="wina")


def run(sparsity: float, evaluation: EvaluationSpec = QUICK, method: MethodSpec = WINA) -> RunSpec:
    return RunSpec(model=DEMO, method=method, plan=UniformSparsity(sparsity=sparsity), evaluation=evaluation)


def evaluate(*runs: RunSpec) -> EvaluateJob:
    return EvaluateJob(runs=tuple(PendingRun(spec=spec, units=spec.evaluation.units) for spec in runs))


LONG_JOB = evaluate(
    run(0.1, EvaluationSpec(fidelity=SHORT)),
    *(run(0.2 + index / 100, EvaluationSpec(fidelity=LONG)) for index in range(50)),
)
"""A run that is soon finished, and then more than any test waits for."""


class Impatient(NullReporter):
    """Cancels after so many checks."""

    def __init__(self, checks: int = 0) -> None:
        self._left = checks

    def check(self) -> None:
        if self._left == 0:
            raise Cancelled
        self._left -= 1


def submit(client: EnginePool, job_id: str, job: Job) -> None:
    client.send(Submit(job_id=job_id, job=job))


class Events:
    """A thread-safe list of events: the `on_event` of a client."""

    def __init__(self) -> None:
        self.all: list[Event] = []
        self._arrived = threading.Condition()

    def __call__(self, event: Event) -> None:
        with self._arrived:
            self.all.append(event)
            self._arrived.notify_all()

    def wait(self, kind: type[E], test: Callable[[E], bool] = lambda _: True) -> E:
        """The first event of a kind that passes the test, whether it has arrived or is to come."""
        found: list[E] = []

        def look() -> bool:
            found[:] = [event for event in self.all if isinstance(event, kind) and test(event)]
            return bool(found)

        with self._arrived:
            assert self._arrived.wait_for(look, PATIENCE), f"no {kind} among {self.all}"
        return found[0]

    def wait_for_number(self, kind: type[Event], count: int) -> None:
        """Wait until so many events of a kind have arrived."""
        enough = lambda: sum(isinstance(event, kind) for event in self.all) >= count  # noqa: E731
        with self._arrived:
            assert self._arrived.wait_for(enough, PATIENCE), f"fewer than {count} {kind} among {self.all}"

    def end(self, job_id: str) -> Done | Failed:
        """How a job ended."""
        return self.wait((Done, Failed), lambda event: event.job_id == job_id)  # type: ignore[arg-type]

    def of(self, job_id: str) -> list[Event]:
        """A job's events in order."""
        return [event for event in self.all if getattr(event, "job_id", None) == job_id]
