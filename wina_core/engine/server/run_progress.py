"""Progress of an evaluation on one scale: the measurements, and what has to be prepared before them, by their work."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from wina_core.compute.reporter import Level, Reporter
from wina_core.engine.products import config_number, hidden_size
from wina_core.engine.protocol import PendingRun
from wina_core.engine.protocol.phases import REFERENCE, Phase, calibrating, phase_name, preparing
from wina_core.engine.protocol.run_sharing import Group, by_model, group_of
from wina_core.records import RefinementStep
from wina_core.sources.sizes import weights_bytes
from wina_core.specs import (
    COST,
    DENSE,
    FIDELITY,
    ORIGINAL,
    SYNTHETIC,
    CalibrationSpec,
    Configuration,
    ModelSource,
    TextSpec,
)

_TASK = 16_384.0
"""Tokens of a task, whose documents nobody has counted."""
_COUNTED = 10.0
"""Work of a measurement that reads no weights."""
_COMPARISON = 7_000.0
"""Work after the layers, the head and the comparison of logits, for each entry of the vocabulary, in weights that are
read: seen at 1.1 billion parameters."""
_AFTER = 0.15
"""The same as a share of a pass, where the sizes are unknown."""


class RunProgress:
    """Progress of the runs of a job, as if preparations were parts of the measurements.

    `missing` are the kinds of products that are not on disk. Work is in forward passes of one token.
    """

    def __init__(self, runs: Sequence[PendingRun], missing: Collection[str]) -> None:
        self._total = sum(len(run.units) for run in runs)
        self._preparing = {group: _preparations(own, missing) for group, own in by_model(runs).items()}
        self._after = {group: after_share(group[0]) for group in by_model(runs)}
        self._measuring = measuring_work(runs, self._after)
        preparing = sum(phase.work for plan in self._preparing.values() for phase in plan)
        self._work = preparing + sum(self._measuring.values())
        self._done = 0.0
        """Work of what is finished."""
        self._reached = 0.0
        """Largest measurements done so far: what is prepared again counts once."""
        self._begun: set[tuple[Group, str]] = set()
        """Preparations that have begun."""
        self._carried: set[tuple[str, str]] = set()
        """Runs, by their hash, and units that have passed the layers."""

    @property
    def total(self) -> int:
        """Return the number of measurements."""
        return self._total

    def preparing(self, run: PendingRun, unit: str, text: str, fraction: float) -> float:
        """Return the measurements done, while the phase with this unit and text is done to a fraction."""
        group, name = group_of(run), phase_name(unit, text)
        names = [phase.name for phase in self._preparing[group]]
        if name not in names:
            return self._scaled(0.0)
        self._begun.add((group, name))
        *before, phase = self._without_skipped(group, names.index(name) + 1)
        return self._scaled(sum(each.work for each in before) + fraction * phase.work)

    def prepared(self, run: PendingRun) -> None:
        """Count the preparations of a run's model as finished."""
        group = group_of(run)
        self._done += sum(phase.work for phase in self._without_skipped(group, len(self._preparing[group])))
        self._preparing[group] = ()

    def _without_skipped(self, group: Group, count: int) -> tuple[Phase, ...]:
        """Return the first phases without those that were never begun, as their products are there: these count no
        more."""
        first, later = self._preparing[group][:count], self._preparing[group][count:]
        found = tuple(phase for phase in first if (group, phase.name) in self._begun)
        self._work -= sum(phase.work for phase in first) - sum(phase.work for phase in found)
        self._preparing[group] = found + later
        return found

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
        after = _after(run, unit, self._after[group_of(run)])
        return min(self._measuring[key], after) if key in self._carried else self._measuring[key]

    def _scaled(self, more: float) -> float:
        self._reached = max(self._reached, self._total * min(1.0, (self._done + more) / self._work))
        return self._reached


def _preparations(runs: Sequence[PendingRun], missing: Collection[str]) -> tuple[Phase, ...]:
    """Return what the runs of one rotated model need before the first measurement."""
    if all(set(run.units) <= {COST, SYNTHETIC} for run in runs):
        return ()
    first = runs[0].spec
    load, *rotating = preparing(first.rotation, missing, hidden_size(first.model))
    text = first.evaluation.original
    referring = []
    if text is not None and any(ORIGINAL in run.units for run in runs):
        referring.append(Phase(REFERENCE, float(text.tokens)))
    needed = [run.spec.calibration for run in runs if run.spec.method.needs_calibration]
    measured = calibrating(needed[0] or CalibrationSpec()) if needed and "calibration" in missing else []
    return (load, *referring, *rotating, *measured)


def after_share(source: ModelSource) -> float:
    """Return the work of a measurement after the layers as a share of a pass."""
    vocabulary, weights = config_number(source, "vocab_size"), weights_bytes(source) / 2
    return _AFTER if vocabulary is None or math.isinf(weights) else min(1.0, _COMPARISON * vocabulary / weights)


def measuring_work(runs: Sequence[PendingRun], after: Mapping[Group, float]) -> dict[tuple[str, str], float]:
    """Return the work of each measurement, by the hash of its run and its unit; `after` are the shares of the head.

    A text passes the layers once for each configuration of a model; what is measured on it later is the head's work.
    """
    found: dict[tuple[str, str], float] = {}
    for group, own in by_model(runs).items():
        passed: set[tuple[str, TextSpec]] = set()
        for run in own:
            name = run.spec.content_hash()
            lane = DENSE.name if run.spec.method.name == DENSE.name else name
            for unit in sorted(run.units, key=lambda unit: unit != FIDELITY):
                work, text = _after(run, unit, after[group]), _text(run, unit)
                lanes = {lane, DENSE.name} if unit == FIDELITY else {lane}
                if text is not None:
                    work += text.tokens * len({(each, text) for each in lanes} - passed)
                    passed |= {(each, text) for each in lanes}
                found[name, unit] = work
    return found


def _text(run: PendingRun, unit: str) -> TextSpec | None:
    evaluation = run.spec.evaluation
    return {FIDELITY: evaluation.fidelity, ORIGINAL: evaluation.original}.get(unit)


def _after(run: PendingRun, unit: str, share: float) -> float:
    """Return the work of a measurement after the layers, or all of it where no text is passed."""
    text = _text(run, unit)
    if text is not None:
        return share * text.tokens
    return _COUNTED if unit in (COST, SYNTHETIC) else _TASK


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

    def begin(self, unit: str, together: Sequence[PendingRun] = ()) -> None:
        """Begin a unit, of this run or of several together, which later progress belongs to."""
        if unit != COST:
            self._progress.prepared(self._run)
        self._unit, self._together = unit, list(together) or [self._run]
        self.progress(0, 1, unit)

    def carried(self) -> None:
        """Count the unit of several runs as finished but for what follows the layers."""
        assert self._unit is not None  # `begin`
        self._progress.carried(self._together, self._unit)
        self._unit, self._together = None, [self._run]

    def close(self) -> None:
        """Count all that the run has left as finished, as where it failed."""
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
