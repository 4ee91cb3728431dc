"""Import of an element's results into a store: by run hash, whatever was stored before, and only what it was given."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from wina_core.errors import WinaError
from wina_core.jobs import Done, Failed, Partial, Ready, RunFailed, RunStarted
from wina_core.records import UnitRecord
from wina_core.remote.cluster.kept import ElementProgress, KeptArray
from wina_core.remote.cluster.requests import Lines
from wina_core.remote.cluster.results_file import parse_lines
from wina_core.remote.content import safe
from wina_core.store.recorder import Recorder
from wina_core.store.refusals import UnwritableError
from wina_core.store.spill import Recorded
from wina_core.store.writer import Writer

_MOST_BYTES = 2**34
"""Most bytes of an element's results."""


@dataclass
class Imported:
    """Result of importing lines."""

    progress: ElementProgress
    units: tuple[UnitRecord, ...] = ()
    failures: tuple[str, ...] = ()
    """Errors of runs."""


def import_lines(array: KeptArray, index: int, lines: Lines, progress: ElementProgress, store: Writer) -> Imported:
    """Store the results in lines of an element's file; lines that were stored before change nothing.

    Results of runs or units that the element was not given, and lines that are no results, end its import: they are a
    fault of that element alone, and what it wrote before stays. Raises UnwritableError where the store refuses for now.
    """
    job = array.elements[index]
    given = {run.spec.content_hash(): frozenset(run.units) for run in job.runs}
    recorder = Recorder(store, job, progress.environment)
    found = Imported(progress)
    fault = lines.fault or ("" if progress.offset < lines.end <= _MOST_BYTES else "there is no end of them")
    environment, error, done = progress.environment, "", False
    try:
        for waiting in parse_lines(lines.text):
            message = _here(safe(waiting.message), array.runs)
            _check(message, given)
            with store.dated(_time(waiting.at, array)):
                match message:
                    case Ready():
                        environment = message.environment
                        recorder.record(message)
                    case RunStarted():
                        recorder.record(message)
                        store.hand_over([message.run], array.owner)
                    case Partial():
                        recorder.record(message)
                        found.units += (message.unit,)
                    case RunFailed():
                        recorder.record(message)
                        found.failures += (message.error,)
                    case Failed():
                        error = message.error
                    case Done(cancelled=False):
                        done = True
    except UnwritableError:
        raise
    except WinaError as refusal:
        fault = str(refusal)
    found.progress = progress.model_copy(
        update={
            "offset": lines.end,
            "environment": environment,
            "results": progress.results + len(found.units),
            "failed_runs": progress.failed_runs + len(found.failures),
            "requeued": 0 if found.units or found.failures else progress.requeued,
            "error": error
            or (f"The results of element {index} are refused: {fault.removesuffix('.')}." if fault else ""),
            "ended": bool(done or error or fault),
        }
    )
    return found


def _here(message: Recorded, runs: Mapping[str, str]) -> Recorded:
    """Return a message with the hash that its run has here."""
    match message:
        case RunStarted() | RunFailed():
            return message.model_copy(update={"run": runs.get(message.run, message.run)})
        case Partial():
            run = runs.get(message.unit.run, message.unit.run)
            return message.model_copy(update={"unit": message.unit.model_copy(update={"run": run})})
        case _:
            return message


def _check(message: Recorded, given: Mapping[str, frozenset[str]]) -> None:
    """Raise WinaError for a result of what was not asked of the element."""
    match message:
        case Partial():
            known = message.unit.unit in given.get(message.unit.run, ())
        case RunStarted() | RunFailed():
            known = message.run in given
        case _:
            known = isinstance(message, Ready | Failed | Done)
    if not known:
        raise WinaError("one of them was not asked of it")


def _time(at: float, array: KeptArray) -> float:
    """Return a time of another machine's clock, brought between the submission and now."""
    now = time.time()
    return min(max(at, array.submitted), now) if math.isfinite(at) else now
