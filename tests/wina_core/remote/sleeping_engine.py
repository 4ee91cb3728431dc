"""An engine that sleeps instead of computing: `sleeping_engine.py SECONDS`, so long for each run.

It ends with code 3 in a run of 95 % sparsity, and before it is ready where SECONDS is "never".
"""

import os
import sys
import time

from wina_core.jobs import (
    REQUESTS,
    Done,
    EvaluateJob,
    Event,
    Partial,
    PendingRun,
    Ready,
    RunFinished,
    RunStarted,
    Shutdown,
    Started,
    Submit,
    encode,
)
from wina_core.records import Environment, MetricRecord, UnitRecord
from wina_core.specs.plans import UniformSparsity


def say(event: Event) -> None:
    sys.stdout.write(encode(event))
    sys.stdout.flush()


def compute(job_id: str, pending: PendingRun, seconds: float) -> None:
    plan, name = pending.spec.plan, pending.spec.content_hash()
    say(RunStarted(job_id=job_id, run=name))
    if isinstance(plan, UniformSparsity) and plan.sparsity == 0.95:
        sys.exit(3)
    for unit in pending.units:
        time.sleep(seconds / len(pending.units))
        metric = MetricRecord(task=unit, metric="kl", value=0.5)
        record = UnitRecord(run=name, unit=unit, metrics=(metric,), seconds=seconds / len(pending.units))
        say(Partial(job_id=job_id, unit=record))
    say(RunFinished(job_id=job_id, run=name))


def main(seconds: float) -> None:
    say(Ready(pid=os.getpid(), environment=Environment(device="cpu", hardware="a node", versions={})))
    for line in sys.stdin:
        request = REQUESTS.validate_json(line)
        if isinstance(request, Shutdown):
            return
        if isinstance(request, Submit) and isinstance(request.job, EvaluateJob):
            say(Started(job_id=request.job_id))
            for pending in request.job.runs:
                compute(request.job_id, pending, seconds)
            say(Done(job_id=request.job_id))


if __name__ == "__main__":
    if sys.argv[1] == "never":
        sys.exit("There is no torch on this node.")
    main(float(sys.argv[1]))
