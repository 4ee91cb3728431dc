"""Stages of jobs, throttling of progress messages, and the remaining time; the clock is an argument.

The remaining time follows from the pace of a stage (`StageEta`), and for an evaluation from the usual seconds of its
measurements (`MeasurementTimes`).
"""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from wina_core.jobs.events import Event, Partial, RunFailed, RunFinished, RunStarted
from wina_core.jobs.job_specs import EvaluateJob
from wina_core.records import ProductKind
from wina_core.specs import COST, FIDELITY, RunSpec
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
_PRODUCTS: Mapping[Stage, ProductKind] = {
    "moments of inputs": "rotation",
    "sensitivities": "rotation",
    "refinement": "rotation",
    "refinement on KL": "rotation",
    "text from the model": "rotation",
    "comparison of rotations": "rotation",
    "rotation": "rotation",
    "sensitivities of outputs": "quantization",
    "energies of inputs": "quantization",
    "quantization": "quantization",
    "calibration": "calibration",
    "allocation": "allocation",
}
"""Kind of the product that a stage computes."""

INTERVAL_SECONDS = 0.1
"""Shortest time between two progress messages of a job: smooth to the eye, little on the wire."""

MEMORY_SECONDS = 30.0
"""Time over which the rate of a short job fades: it evens out batches and follows changes."""

MEMORY_SHARE = 0.25
"""The same for a long job, as a share of its time so far: it evens out measurements of different kinds."""


class Eta:
    """Smoothed remaining time of work, from reports of (now, done, total).

    The rate is (sum of work) / (sum of time), both fading exponentially, so that it is exact for steady work from the
    first step on and follows a change of pace.
    """

    def __init__(self) -> None:
        self._begun = 0.0
        self._last: tuple[float, float] | None = None
        self._work = 0.0
        self._time = 0.0

    def update(self, now: float, done: float, total: float | None) -> float | None:
        """Return the seconds that remain after `done` of `total` at the time `now`; None while unknown.

        A smaller `done` than before means that other work has begun, and resets the estimate.
        """
        if self._last is None or done < self._last[1]:
            self._begun, self._last, self._work, self._time = now, (now, done), 0.0, 0.0
            return None
        elapsed, step = max(0.0, now - self._last[0]), done - self._last[1]
        self._last = (now, done)
        fade = math.exp(-elapsed / max(MEMORY_SECONDS, MEMORY_SHARE * (now - self._begun)))
        self._work = self._work * fade + step
        self._time = self._time * fade + elapsed
        if total is None or self._work <= 0.0 or self._time <= 0.0:
            return None
        return max(0.0, total - done) * self._time / self._work


class StageEta:
    """Remaining seconds of a job's stage, by its pace, and of the products of later stages, by their stored seconds."""

    def __init__(self, later: Mapping[str, float] | None = None) -> None:
        """`later` are the stored seconds of missing products, by kind; each counts until the first of its stages."""
        self._later = dict(later or {})
        self.stage: Stage = ""
        self._etas: dict[Stage, Eta] = {}
        """One estimate for each stage, since some alternate."""
        self._eta = self._etas.setdefault("", Eta())

    def begin(self, stage: Stage) -> None:
        """Begin a stage, unless it is the current one."""
        if stage == self.stage:
            return
        self.stage, self._eta = stage, self._etas.setdefault(stage, Eta())
        self._later.pop(_PRODUCTS.get(stage, ""), None)
        if not stage:  # nothing is prepared any more
            self._later.clear()

    def update(self, now: float, done: float, total: float | None) -> float | None:
        """Return the remaining seconds after `done` of the stage's `total` at the time `now`; None while unknown."""
        left = self._eta.update(now, done, total)
        return None if left is None else left + math.fsum(self._later.values())


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
        self._missing = {run.spec.content_hash(): _kinds(run.spec, run.units) for run in job.runs}
        """Kinds of the missing measurements, by run and unit."""
        self._counts = Counter(kind for kinds in self._missing.values() for kind in kinds.values())
        self._stored = {kind: job.stored[kind] for kind in self._counts if kind in job.stored}
        self._arrived: defaultdict[str, list[float]] = defaultdict(list)
        self._finished = 0
        """Measurements that arrived, or whose run has failed."""
        self.run: str | None = None
        """The run that began last."""

    def take(self, event: Event) -> None:
        """Count what an event brings; other events change nothing."""
        match event:
            case RunStarted():
                self.run = event.run
            case Partial():
                kind = self._finish(event.unit.run, event.unit.unit)
                if kind:
                    self._arrived[kind].append(event.unit.seconds)
            case RunFinished() | RunFailed():
                for unit in list(self._missing.get(event.run, ())):
                    self._finish(event.run, unit)

    def usual(self, run: str | None) -> float | None:
        """Return the usual seconds of a run's next measurement; None while unknown, and without one."""
        kind = next(filter(None, self._missing.get(run or "", {}).values()), "")
        return self._usual().get(kind)

    def left(self, done: float = 0.0, runs: Sequence[str | None] = ()) -> float | None:
        """Return the seconds of all missing measurements; None while unknown.

        `done` is the number of measurements done, in part those under way. `runs` are the current ones, one of each
        engine at work.
        """
        usual = self._usual()
        missing = {kind for kind, count in self._counts.items() if count}
        # Costs alone take no time, but rotations and allocations for them do, and theirs is unknown.
        if any(kind not in usual for kind in missing - {""}) or missing == {""}:
            return None
        seconds = sum(count * usual[kind] for kind, count in self._counts.items() if kind)
        if runs:
            # `done` counts fractions of the current measurements, which are taken off at their mean pace.
            current = statistics.fmean(self.usual(run) or 0.0 for run in runs)
            seconds -= max(0.0, done - self._finished) * current
        # Engines at work share the rest: it is handed out in small pieces towards the end.
        return max(0.0, seconds) / max(1, len(runs))

    def _usual(self) -> dict[str, float]:
        """Return the usual seconds of each missing kind; empty while none is known."""
        means = self._stored | {kind: statistics.fmean(seconds) for kind, seconds in self._arrived.items()}
        if not means:
            return {}
        return dict.fromkeys(filter(None, self._counts), statistics.fmean(means.values())) | means

    def _finish(self, run: str, unit: str) -> str:
        """Count a measurement as finished; return its kind, empty if it takes no time worth counting."""
        kind = self._missing.get(run, {}).pop(unit, None)
        if kind is None:
            return ""
        self._finished += 1
        self._counts[kind] -= 1
        return kind


def _kinds(spec: RunSpec, units: Iterable[str]) -> dict[str, str]:
    """Return the kind of each unit in the order of measuring; empty for costs, which are counted without weights."""
    # Evaluation measures the fidelity first, and `usual` takes the next unit from the front.
    ordered = sorted(units, key=lambda unit: unit != FIDELITY)
    return {unit: "" if unit == COST else measurement_key(spec, unit) for unit in ordered}
