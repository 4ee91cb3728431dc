"""Progress of an evaluation in measurements, which its runs report in turn."""

from collections.abc import Sequence

from wina_core.compute.reporter import Level, Reporter
from wina_core.jobs import PendingRun
from wina_core.jobs.progress import Stage
from wina_core.records import RefinementStep
from wina_core.specs import Configuration


class RunProgress:
    """Measurements of a job's runs that are done."""

    def __init__(self, runs: Sequence[PendingRun]) -> None:
        self.total = sum(len(run.units) for run in runs)
        self._done: set[tuple[str, str]] = set()
        """Runs, by their hash, and units that are measured, have failed, or have passed the layers with others."""
        self._reached = 0.0
        """Largest measurements done so far: what is measured again counts once."""

    def add(self, run: PendingRun, unit: str) -> None:
        """Count a measurement as done, if it is one of the run's."""
        if unit in run.units:
            self._done.add((run.spec.content_hash(), unit))

    def reached(self, under_way: Sequence[PendingRun] = (), unit: str = "", fraction: float = 0.0) -> float:
        """Return the measurements done, while a unit of some runs together is done to a fraction."""
        more = sum((run.spec.content_hash(), unit) not in self._done for run in under_way)
        self._reached = max(self._reached, len(self._done) + fraction * more)
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
        self._stage: Stage = ""
        self._unit: str | None = None
        self._together = [run]

    def of(self, run: PendingRun) -> "RunReporter":
        """Return the reporter of another run of the job."""
        return RunReporter(self._reporter, run, self._progress)

    def begin(self, unit: str, together: Sequence[PendingRun] = ()) -> None:
        """Begin a unit, of this run or of several together, which later progress belongs to."""
        self._unit, self._together = unit, list(together) or [self._run]
        self.stage("")
        self.progress(0, 1, unit)

    def carried(self) -> None:
        """Count the unit of several runs as done: what follows the layers takes little time."""
        assert self._unit is not None  # `begin`
        for run in self._together:
            self._progress.add(run, self._unit)
        self._unit, self._together = None, [self._run]

    def close(self) -> None:
        """Count all that the run has left as done, as where it failed."""
        for unit in self._run.units:
            self._progress.add(self._run, unit)

    def end(self) -> None:
        """Count the unit as done."""
        assert self._unit is not None  # `begin`
        self.progress(1, 1, "")
        self._progress.add(self._run, self._unit)
        self._unit = None

    def stage(self, name: Stage) -> None:
        self._stage = name
        self._reporter.stage(name)

    def progress(self, done: float, total: float | None, unit: str, metric: str = "") -> None:
        fraction = min(1.0, done / total) if total else 0.0
        if self._unit is None:
            reached = self._progress.reached()
            share = f"{100 * fraction:.0f} %" if total else ""
            doing = ", ".join(filter(None, (": ".join(filter(None, (self._stage, metric))), share)))
        else:
            reached = self._progress.reached(self._together, self._unit, fraction)
            doing = metric or self._unit
        self._reporter.progress(reached, self._progress.total, "measurements", f"{self._label}: {doing or unit}")

    def refined(self, step: RefinementStep) -> None:
        self._reporter.refined(step)

    def log(self, level: Level, text: str) -> None:
        self._reporter.log(level, f"{self._label}: {text}")

    def check(self) -> None:
        self._reporter.check()

    @property
    def released(self) -> bool:
        return self._reporter.released
