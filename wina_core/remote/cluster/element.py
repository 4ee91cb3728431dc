"""Element of an array job: a group of runs, computed in this process, with its results in a file."""

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from pydantic import ValidationError

from wina_core.errors import Cancelled, Terminated, WinaError, explain, unforeseen
from wina_core.jobs import (
    Done,
    EvaluateJob,
    Event,
    Failed,
    Partial,
    PendingRun,
    Ready,
    RunFailed,
    RunStarted,
)
from wina_core.records import RefinementStep
from wina_core.remote.cluster.results_file import ResultsFile
from wina_core.remote.cluster.slurm import queue
from wina_core.store.spill import Recorded

MOST_BEGINNINGS = 3
"""Processes that a run may end before it is given up."""
_GIVEN_UP = f"It ended its process, or its time limit, {MOST_BEGINNINGS} times; give it more memory or time."
_PROGRESS_SECONDS = 30.0


class Stop:
    """The signal that asked this element to stop: SIGUSR1 or SIGUSR2 before a time limit or a preemption, where it is
    to be queued again, or one that ends programs, where Slurm decides."""

    def __init__(self) -> None:
        self.signal = 0
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        print(f"{signal.Signals(number).name}: stopping at the next batch.", file=sys.stderr, flush=True)
        if self.signal not in (signal.SIGUSR1, signal.SIGUSR2):
            self.signal = number

    @property
    def requeues(self) -> bool:
        """True if this element is to ask Slurm to queue it again."""
        return self.signal in (signal.SIGUSR1, signal.SIGUSR2)


class _Reporter:
    """Reporter that writes to the element's log and stops at a signal."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._printed = 0.0

    def progress(self, done: float, total: float | None, unit: str, metric: str = "") -> None:
        if time.monotonic() - self._printed >= _PROGRESS_SECONDS:
            self._printed = time.monotonic()
            self.log("info", f"{metric or unit}: {done:,.1f}{f' of {total:,.1f}' if total else ''} {unit}")

    def refined(self, step: RefinementStep) -> None:
        """Do nothing."""

    def log(self, level: str, text: str) -> None:
        if level != "debug":
            print(text, file=sys.stderr, flush=True)

    def check(self) -> None:
        if self._stop.signal:
            raise Terminated(self._stop.signal)

    @property
    def released(self) -> bool:
        return False


def compute_element(folder: Path, index: int, stop: Stop) -> int:
    """Compute what is missing in the results file of an element of the array in a folder; return the exit code.

    What an earlier process of this element has written is not computed again. A stop at a signal leaves the rest to the
    next process, for which Slurm is asked after SIGUSR1 and SIGUSR2.
    """
    job = _read_job(folder / "elements" / f"{index}.json")
    file = ResultsFile(folder / "results" / f"{index}.jsonl")
    written = list(file.messages())
    rest, given_up = rest_of(job, written)
    name = f"element-{index}"
    for run in given_up:
        file.write(RunFailed(job_id=name, run=run, error=_GIVEN_UP))
    try:
        if rest:
            _compute(job.model_copy(update={"runs": rest}), file, _Reporter(stop), name)
    except Cancelled:
        if stop.requeues:
            _ask_to_requeue()
        else:
            file.write(Done(job_id=name, cancelled=True))
        return 128 + stop.signal
    except BaseException as error:
        file.write(Failed(job_id=name, error=str(error) if isinstance(error, WinaError) else unforeseen(error)))
        raise
    file.write(Done(job_id=name))
    return 0


def _read_job(path: Path) -> EvaluateJob:
    try:
        return EvaluateJob.model_validate_json(path.read_bytes())
    except OSError as error:
        raise WinaError(f"The element {path} cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        raise WinaError(f"The element {path} is not valid: {explain(error)}") from error


def _compute(job: EvaluateJob, file: ResultsFile, reporter: _Reporter, name: str) -> None:
    os.environ.setdefault("TQDM_DISABLE", "1")
    from wina_core.compute.session.environment import environment  # seconds, in which a signal may come
    from wina_core.compute.session.model_session import Session
    from wina_core.engine.server.run_job import run_job

    def emit(event: Event) -> None:
        if isinstance(event, RunStarted | Partial | RunFailed):
            file.write(event)

    reporter.check()
    file.write(Ready(pid=os.getpid(), environment=environment()))
    run_job(job, Session(), emit, reporter, name)


def rest_of(job: EvaluateJob, written: Iterable[Recorded]) -> tuple[tuple[PendingRun, ...], list[str]]:
    """Return the runs and units that are missing, and the hashes of runs that ended too many processes.

    A run that has failed is not tried again. One that is begun counts until it brings a result, unless Slurm stopped
    its process for other reasons than its time limit.
    """
    units: set[tuple[str, str]] = set()
    failed: set[str] = set()
    begun: Counter[str] = Counter()
    for message in written:
        match message:
            case RunStarted():
                begun[message.run] += 1
            case Partial():
                units.add((message.unit.run, message.unit.unit))
                begun[message.unit.run] = 0
            case RunFailed():
                failed.add(message.run)
            case Done(cancelled=True):
                begun.clear()
    rest, given_up = [], []
    for run in job.runs:
        name = run.spec.content_hash()
        missing = tuple(unit for unit in run.units if (name, unit) not in units)
        if not missing or name in failed:
            continue
        if begun[name] >= MOST_BEGINNINGS:
            given_up.append(name)
        else:
            rest.append(run.model_copy(update={"units": missing}))
    return tuple(rest), given_up


def _ask_to_requeue() -> None:
    array, index = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    if array and index:
        for reason in queue.requeue(array, (int(index),)).values():
            print(f"Slurm does not queue this element again: {reason}", file=sys.stderr)
