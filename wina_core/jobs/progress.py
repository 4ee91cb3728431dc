"""Stages of jobs, throttling of progress messages, and the remaining time; the clock is an argument.

The remaining time follows from the work done of a stage (`StageEta`), and for an evaluation from the usual seconds of
its measurements (`MeasurementTimes`).
"""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal

from wina_core.jobs.events import Event, Partial, RunFailed, RunFinished
from wina_core.jobs.job_specs import EvaluateJob, PendingRun
from wina_core.specs import COST
from wina_core.specs.runs import measurement_key

Stage = Literal[
    "",
    "loading",
    "original model",
    "spectra of inputs",
    "moments of inputs",
    "sensitivities",
    "refinement",
    "refinement on KL",
    "text from the model",
    "comparison of rotations",
    "orthogonality of columns",
    "rotation",
    "sensitivities of outputs",
    "energies of inputs",
    "quantization",
    "calibration",
    "correction of thresholds",
    "tuning of biases",
    "allocation",
]
"""Current work of a job; "" before the first stage, and for what the job itself does after all preparations."""
INTERVAL_SECONDS = 0.1
"""Shortest time between two progress messages of a job: smooth to the eye, little on the wire."""


class StageEta:
    """Remaining seconds of a job's current stage, from the work done of it so far."""

    def __init__(self) -> None:
        self.stage: Stage = ""
        self._reports: dict[Stage, tuple[float, float, float]] = {}
        """Time and work of the first report of each stage, since some alternate, and the work of its last."""

    def begin(self, stage: Stage) -> None:
        self.stage = stage

    def update(self, now: float, done: float, total: float | None) -> float | None:
        """Return the remaining seconds after `done` of the stage's `total` at the time `now`; None while unknown.

        A smaller `done` than before means that other work has begun.
        """
        begun, before, last = self._reports.get(self.stage, (now, done, done))
        if done < last:
            begun, before = now, done
        self._reports[self.stage] = begun, before, done
        if total is None or done <= before or now <= begun:
            return None
        return max(0.0, total - done) * (now - begun) / (done - before)


class Throttle:
    """Limit of one message per INTERVAL_SECONDS; the last message of a stretch of work always passes."""

    def __init__(self) -> None:
        self._passed = -math.inf

    def passes(self, now: float, done: float, total: float | None) -> bool:
        """Return whether to send the message that reports `done` of `total` at the time `now`."""
        if now - self._passed < INTERVAL_SECONDS and done != total:
            return False
        self._passed = now
        return True


class MeasurementTimes:
    """Seconds of an evaluation's measurements by kind (`measurement_key`): model, unit, and whether gates are on.

    The usual seconds of a kind are the mean of those that arrived, else the stored median that the job brings, else the
    mean of the kinds that are known. Preparations, such as rotations, are not part of them.
    """

    def __init__(self, job: EvaluateJob) -> None:
        self._missing = {run.spec.content_hash(): _kinds(run) for run in job.runs}
        """Kinds of the missing measurements, by run and unit."""
        self._counts = Counter(kind for kinds in self._missing.values() for kind in kinds.values())
        self._total = self._counts.total()
        self._stored = {kind: job.stored[kind] for kind in self._counts if kind in job.stored}
        self._arrived: defaultdict[str, list[float]] = defaultdict(list)

    def take(self, event: Event) -> None:
        """Count what an event brings; other events change nothing."""
        match event:
            case Partial():
                if kind := self._finish(event.unit.run, event.unit.unit):
                    self._arrived[kind].append(event.unit.seconds)
            case RunFinished() | RunFailed():
                for unit in list(self._missing.get(event.run, ())):
                    self._finish(event.run, unit)

    def left(self, done: float = 0.0, engines: int = 1) -> float | None:
        """Return the seconds of all missing measurements on some engines; None while unknown.

        `done` is the number of measurements done, in part those under way.
        """
        means = self._stored | {kind: statistics.fmean(seconds) for kind, seconds in self._arrived.items()}
        missing = {kind: count for kind, count in self._counts.items() if count}
        number = sum(missing.values())
        # Costs alone take no time, but rotations and allocations for them do, and theirs is unknown.
        if missing and (not means or missing.keys() == {""}):
            return None
        usual = statistics.fmean(means.values()) if means else 0.0
        seconds = math.fsum(count * means.get(kind, usual) for kind, count in missing.items() if kind)
        under_way = max(0.0, done - (self._total - number)) / max(1, number)
        return seconds * max(0.0, 1.0 - under_way) / max(1, engines)

    def _finish(self, run: str, unit: str) -> str:
        """Count a measurement as finished; return its kind, empty if it takes no time worth counting."""
        kind = self._missing.get(run, {}).pop(unit, None)
        if kind is None:
            return ""
        self._counts[kind] -= 1
        return kind


def _kinds(run: PendingRun) -> dict[str, str]:
    """Return the kind of each missing unit; empty for costs, which are counted without weights."""
    return {unit: "" if unit == COST else measurement_key(run.spec, unit) for unit in run.units}


def expected_seconds(runs: Iterable[PendingRun], stored: Mapping[str, float]) -> dict[str, list[float | None]]:
    """Return the `stored` median seconds of each missing measurement, by unit; None for one of a kind without any."""
    seconds: dict[str, list[float | None]] = {}
    for run in runs:
        for unit in run.units:
            seconds.setdefault(unit, []).append(stored.get(measurement_key(run.spec, unit)))
    return seconds
