"""Progress of an evaluation on one scale: the measurements, and what has to be prepared before them, by their work."""

from collections.abc import Iterable, Sequence

from wina_core.compute.reporter import Level, Reporter
from wina_core.jobs import PendingRun
from wina_core.jobs.phases import Phase, phase_name
from wina_core.jobs.planning.run_work import Missing, RunWork
from wina_core.jobs.run_sharing import Group, group_of
from wina_core.records import RefinementStep
from wina_core.specs import COST, Configuration

_Key = Group | str
"""A rotated model, or the hash of a run."""


class RunProgress:
    """Progress of the runs of a job, as if preparations were parts of the measurements.

    Work is in forward passes of one token.
    """

    def __init__(self, runs: Sequence[PendingRun], missing: Missing) -> None:
        self._total = sum(len(run.units) for run in runs)
        self._weights = RunWork(runs, missing)
        self._work = self._weights.of(runs)
        self._preparing: dict[_Key, list[Phase]] = {
            **{group: list(phases) for group, phases in self._weights.preparing.items()},
            **{run: list(phases) for run, phases in self._weights.own.items()},
        }
        """Phases that have not finished, of each rotated model and of each run."""
        self._done = 0.0
        """Work of what is finished."""
        self._reached = 0.0
        """Largest measurements done so far: what is prepared again counts once."""
        self._begun: set[tuple[_Key, str]] = set()
        """Preparations that have begun."""
        self._carried: set[tuple[str, str]] = set()
        """Runs, by their hash, and units that have passed the layers."""

    @property
    def total(self) -> int:
        """Return the number of measurements."""
        return self._total

    def preparing(self, run: PendingRun, unit: str, text: str, fraction: float) -> float:
        """Return the measurements done, while the phase with this unit and text is done to a fraction."""
        name, plan = phase_name(unit, text), self._plan(run)
        at = next((place for place, (_, phase) in enumerate(plan) if phase.name == name), None)
        if at is None:
            return self._scaled(0.0)
        key, phase = plan[at]
        self._begun.add((key, name))
        return self._scaled(self._begun_work(plan[:at]) + fraction * phase.work)

    def prepared(self, run: PendingRun) -> None:
        """Count the preparations of a run and of its model as finished."""
        plan = self._plan(run)
        self._done += self._begun_work(plan)
        for key, phase in self._plan(run):
            self._preparing[key].remove(phase)

    def dropped(self, run: PendingRun) -> None:
        """Count no more what a run alone has left to prepare."""
        own = self._preparing[run.spec.content_hash()]
        self._work -= sum(phase.work for phase in own)
        own.clear()

    def _plan(self, run: PendingRun) -> list[tuple[_Key, Phase]]:
        keys = (group_of(run), run.spec.content_hash())
        return [(key, phase) for key in keys for phase in self._preparing[key]]

    def _begun_work(self, plan: Sequence[tuple[_Key, Phase]]) -> float:
        """Return the work of the phases that have begun; the others are skipped, as their products are there, and count
        no more."""
        work = 0.0
        for key, phase in plan:
            if (key, phase.name) in self._begun:
                work += phase.work
            else:
                self._work -= phase.work
                self._preparing[key].remove(phase)
        return work

    def measuring(self, runs: Sequence[PendingRun], unit: str, fraction: float) -> float:
        """Return the measurements done, while those of some runs are together done to a fraction."""
        return self._scaled(fraction * sum(self._left(run, unit) for run in runs))

    def carried(self, runs: Sequence[PendingRun], unit: str) -> None:
        """Count all of these measurements as finished but for what follows the layers."""
        for run in runs:
            key = run.spec.content_hash(), unit
            self._done += self._left(run, unit)
            self._carried.add(key)
            self._done -= self._left(run, unit)

    def measured(self, run: PendingRun, units: Iterable[str]) -> None:
        """Count measurements as finished, also failed ones."""
        self._done += sum(self._left(run, unit) for unit in units)

    def _left(self, run: PendingRun, unit: str) -> float:
        key = run.spec.content_hash(), unit
        work = self._weights.measuring[key]
        return min(work, self._weights.after_layers(run, unit)) if key in self._carried else work

    def _scaled(self, more: float) -> float:
        self._reached = max(self._reached, self._total * min(1.0, (self._done + more) / self._work))
        return self._reached


class RunReporter:
    """Reporter of one run within a job."""

    def __init__(self, reporter: Reporter, run: PendingRun, progress: RunProgress) -> None:
        spec = run.spec
        configuration = Configuration(rotation=spec.rotation, method=spec.method).label
        self._label = (
            configuration if spec.method.name == "dense" else f"{configuration}, {100 * spec.plan.budget:.4g} %"
        )
        self._reporter = reporter
        self._run = run
        self._progress = progress
        self._unit: str | None = None
        self._together = [run]
        self._left = list(run.units)

    def of(self, run: PendingRun) -> "RunReporter":
        """Return the reporter of another run of the job."""
        return RunReporter(self._reporter, run, self._progress)

    def begin(self, unit: str, together: Sequence[PendingRun] = ()) -> None:
        """Begin a unit, of this run or of several together, which later progress belongs to."""
        self._unit, self._together = unit, list(together) or [self._run]
        for run in self._together if unit != COST else ():
            self._progress.prepared(run)
        self.progress(0, 1, unit)

    def carried(self) -> None:
        """Count the unit of several runs as finished but for what follows the layers."""
        assert self._unit is not None  # `begin`
        self._progress.carried(self._together, self._unit)
        self._unit, self._together = None, [self._run]

    def close(self) -> None:
        """Count all that the run has left as finished, as where it failed."""
        self._progress.dropped(self._run)
        self._progress.measured(self._run, self._left)
        self._left = []

    def end(self) -> None:
        """Count the unit as finished."""
        assert self._unit is not None  # `begin`
        self.progress(1, 1, "")
        self._progress.measured(self._run, [self._unit])
        self._left.remove(self._unit)
        self._unit = None

    def progress(self, done: float, total: float | None, unit: str, metric: str = "") -> None:
        fraction = min(1.0, done / total) if total else 0.0
        if self._unit is None:
            reached = self._progress.preparing(self._run, unit, metric, fraction)
        else:
            reached = self._progress.measuring(self._together, self._unit, fraction)
        text = f"{self._label}: {metric or self._unit or unit}"
        self._reporter.progress(reached, self._progress.total, "measurements", text)

    def refined(self, step: RefinementStep) -> None:
        self._reporter.refined(step)

    def log(self, level: Level, text: str) -> None:
        self._reporter.log(level, f"{self._label}: {text}")

    def check(self) -> None:
        self._reporter.check()

    @property
    def released(self) -> bool:
        return self._reporter.released
