"""The usual seconds of an evaluation's measurements, and of those that are missing."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from wina_core.jobs.events import Event, Partial, RunFailed, RunFinished, RunStarted
from wina_core.jobs.job_specs import EvaluateJob
from wina_core.specs import COST, FIDELITY, RunSpec
from wina_core.specs.unit_keys import measurement_key


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
        """Count what an event brings; any other event is passed over."""
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
        if any(kind not in usual for kind in missing - {""}) or missing == {""}:  # rotations and allocations for costs
            return None
        seconds = sum(count * usual[kind] for kind, count in self._counts.items() if kind)
        if runs:
            current = statistics.fmean(self.usual(run) or 0.0 for run in runs)
            seconds -= max(0.0, done - self._finished) * current
        return max(0.0, seconds) / max(1, len(runs))

    def _usual(self) -> dict[str, float]:
        """Return the usual seconds of each missing kind; empty while none is known."""
        known = self._stored | {kind: statistics.fmean(seconds) for kind, seconds in self._arrived.items()}
        if not known:
            return {}
        return dict.fromkeys(filter(None, self._counts), statistics.fmean(known.values())) | known

    def _finish(self, run: str, unit: str) -> str:
        """Count a measurement as no more missing; return its kind, empty if it takes no time worth counting."""
        kind = self._missing.get(run, {}).pop(unit, None)
        if kind is None:
            return ""
        self._finished += 1
        self._counts[kind] -= 1
        return kind


def _kinds(spec: RunSpec, units: Iterable[str]) -> dict[str, str]:
    """Return the kind of each unit in the order of measuring; empty for costs, which are counted without weights."""
    ordered = sorted(units, key=lambda unit: unit != FIDELITY)
    return {unit: "" if unit == COST else measurement_key(spec, unit) for unit in ordered}
