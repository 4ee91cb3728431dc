"""A program that stores invented results in a shared database, as a job does, until all of its runs are done.

    python -m tests.trust.postgres_writer URL WRITER WRITERS RUNS

Each run is wanted by two writers, and may be computed by both. A killed writer is started again and goes on.
"""

import sys
import time

from tests.wina_core.samples import ENVIRONMENT, MODEL, WINA
from tests.wina_core.samples import study as a_study
from wina_core.errors import WinaError
from wina_core.jobs import Done, EvaluateJob, Partial, Ready, RunStarted, Submit
from wina_core.records import MetricRecord, UnitRecord
from wina_core.specs import EvaluationSpec, RunSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.store import Backlog, Store, backlog

UNITS = ("first", "second")
METRICS = 25
"""Numbers of a unit."""
AT_ONCE = 20
"""Runs that are launched together."""
EVALUATION = EvaluationSpec(tasks=UNITS, fidelity=None)


def all_runs(count: int) -> tuple[RunSpec, ...]:
    """Return so many runs."""
    return tuple(
        RunSpec(model=MODEL, method=WINA, plan=UniformSparsity(sparsity=number / (count + 1)), evaluation=EVALUATION)
        for number in range(count)
    )


def unit_of(run: str, unit: str) -> UnitRecord:
    """Return the numbers of a unit, which follow from its run."""
    metrics = tuple(
        MetricRecord(task=unit, metric=f"metric {number}", value=value_of(run, unit, number), n=100)
        for number in range(METRICS)
    )
    return UnitRecord(run=run, unit=unit, metrics=metrics, layers=(), gated_sparsity=0.5, net_sparsity=0.5, seconds=1.0)


def value_of(run: str, unit: str, number: int) -> float:
    """Return a number that follows from its place."""
    return (int(run, 16) % 1_000_003 + UNITS.index(unit) + number) / 1_000_003


def write(url: str, writer: int, writers: int, count: int) -> None:
    """Compute the runs of two of so many portions, as far as they are not stored."""
    backlog.RETRY_SECONDS = 0.2
    own = [run for number, run in enumerate(all_runs(count)) if number % writers in (writer, (writer + 1) % writers)]
    portions = [own[start : start + AT_ONCE] for start in range(0, len(own), AT_ONCE)]
    portions = portions[writer:] + portions[:writer]
    with _opened(url) as store:
        recorder = Backlog(store)
        recorder.record(Ready(pid=1, environment=ENVIRONMENT))
        while portions:
            portion = portions.pop(0)
            try:
                pending = store.pending(portion)
                store.launch(a_study(f"portion {writer}"), portion, pending)
            except WinaError:  # the server is gone
                time.sleep(0.2)
                portions.append(portion)
                continue
            if pending:
                _compute(recorder, EvaluateJob(runs=tuple(pending)), f"{writer} {time.monotonic()}")
            while recorder.refusal:  # what waits is not stored, so it would be launched again
                time.sleep(0.2)
                recorder.retry()
        recorder.close()


def _compute(recorder: Backlog, job: EvaluateJob, name: str) -> None:
    recorder.record(Submit(job_id=name, job=job))
    for pending in job.runs:
        run = pending.spec.content_hash()
        recorder.record(RunStarted(job_id=name, run=run))
        for unit in pending.units:
            print(run, unit, flush=True)
            recorder.record(Partial(job_id=name, unit=unit_of(run, unit)))
    recorder.record(Done(job_id=name))


def _opened(url: str) -> Store:
    while True:
        try:
            return Store(url)
        except WinaError:
            time.sleep(0.2)


if __name__ == "__main__":
    write(sys.argv[1], *map(int, sys.argv[2:5]))
