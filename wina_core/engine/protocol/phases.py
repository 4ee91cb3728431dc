"""The phases of a job and the remaining time of all of them, in one unit of work."""

from collections.abc import Collection
from dataclasses import dataclass

from wina_core.accounting.refinement import MEASURED_TOKENS
from wina_core.engine.protocol.jobs import (
    AllocateJob,
    AllocateJointlyJob,
    CalibrateJob,
    DecodeJob,
    GenerateJob,
    InspectGateJob,
    Job,
    RotateJob,
)
from wina_core.engine.protocol.progress import Eta, Steady
from wina_core.sources.products import searched
from wina_core.specs import AllocatorSpec, CalibrationSpec, RotationSpec
from wina_core.specs.latency import missing_points

LOAD, ENERGIES = "reading the weights", "the orthogonality"
MOMENTS, SENSITIVITIES = "the moments", "the sensitivities"
REFINEMENT, DIVERGENCE = "the refinement", "the refinement on KL"
ROTATION, CALIBRATION = "rotating", "the calibration"
ALLOCATION, REFERENCE, WORK = "the allocation", "the original", "this step"
_BY_TEXT = {
    "reading": LOAD,
    "fetching": LOAD,
    "orthogonality": ENERGIES,
    "log-probabilities": REFERENCE,
    "measuring": MOMENTS,
    "sensitivities": SENSITIVITIES,
    "basis": REFINEMENT,
    "KL": DIVERGENCE,
    "rotating": ROTATION,
    "modes": CALIBRATION,
    "score": CALIBRATION,
}
"""Phase by the beginning of the text of its progress."""
_OVERHEAD = 4_000.0
"""Work of a phase that reads the weights once."""
_LOADING = 2_000.0
USUAL_HIDDEN_SIZE = 2048
"""A usual hidden size, where it is unknown."""
_TURNING, _MEASURING = 7.5, 2.0
"""Work of rotating the weights, and of measuring their orthogonality, for each number of the hidden size: products of
every weight with so many."""
_LEARNT = 0.03
"""Fraction of a phase after which its own pace counts."""


@dataclass(frozen=True)
class Phase:
    """A part of a job; its work is in forward passes of one token, a rough guess until its own pace is known."""

    name: str
    work: float
    seconds: float | None = None
    """Its time, where a budget says it; its work counts for no other phase then."""


def phases(
    job: Job, missing: Collection[str] = ("rotation", "calibration"), hidden: int = USUAL_HIDDEN_SIZE
) -> tuple[Phase, ...]:
    """Return the phases of a job, in order; `missing` are the kinds of products that are not on disk, `hidden` the
    hidden size of its model."""
    match job:
        case RotateJob() | CalibrateJob() | AllocateJob() | AllocateJointlyJob() | InspectGateJob():
            rotation = job.rotation
        case DecodeJob():
            rotation = job.spec.rotation
        case GenerateJob():
            rotation = next((each.rotation for each in job.configurations if not each.is_dense), RotationSpec())
        case _:
            return Phase(LOAD, _LOADING), Phase(WORK, _OVERHEAD)
    found = preparing(rotation, missing, hidden)
    match job:
        case CalibrateJob():
            found += calibrating(job.calibration)
        case AllocateJob():
            if searched(job.method, job.plan.allocator).needs_calibration and "calibration" in missing:
                found += calibrating(job.calibration)
            found.append(Phase(ALLOCATION, _allocation_work(job.plan.allocator)))
        case RotateJob():
            pass
        case DecodeJob():
            found.append(Phase(WORK, _OVERHEAD, _budget(job)))
        case _:
            found.append(Phase(WORK, _OVERHEAD))
    return tuple(found)


def _budget(job: DecodeJob) -> float | None:
    """Return the seconds of all points that are stored nowhere; None without a budget."""
    if job.spec.budget_seconds is None:
        return None
    stored = {point for points in job.stored.values() for point in points}
    return job.spec.budget_seconds * len(missing_points(job.spec.points(), stored)[1])


def preparing(rotation: RotationSpec, missing: Collection[str], hidden: int = USUAL_HIDDEN_SIZE) -> list[Phase]:
    """Return the phases of loading and rotating a model of a hidden size."""
    found = [Phase(LOAD, _LOADING)]
    if not rotation.is_identity:
        turning = Phase(ROTATION, _TURNING * hidden)
        found += [*_search_phases(rotation, hidden), turning] if "rotation" in missing else [turning]
    return found


def _search_phases(spec: RotationSpec, hidden: int) -> list[Phase]:
    read = float(min(spec.text.tokens, MEASURED_TOKENS))
    found = [Phase(ENERGIES, _MEASURING * hidden)]
    if not spec.matrices and spec.mode != "none":
        found.append(Phase(MOMENTS, 2 * read if spec.reads_text else _OVERHEAD))
    if not spec.matrices and spec.is_measured:
        found.append(Phase(SENSITIVITIES, 3 * read))
    if not spec.matrices and spec.objective != "eigen":
        found.append(Phase(REFINEMENT, 1000.0 * spec.steps))
    if not spec.matrices and spec.objective == "kl":
        found.append(Phase(DIVERGENCE, 2 * 5.0 * spec.text.sequence * spec.steps))
    return found


def calibrating(spec: CalibrationSpec) -> list[Phase]:
    """Return the phases of a calibration."""
    return [Phase(CALIBRATION, 1.5 * spec.text.tokens + _OVERHEAD)]


def _allocation_work(spec: AllocatorSpec) -> float:
    """Return the work of a search on a model of medium depth."""
    passes = {"uniform": 0.1, "greedy": 100.0, "curves": 400.0, "refine": 400.0 + 150.0 * spec.rounds}
    return spec.text.tokens * passes.get(spec.name, 30.0 * spec.rounds)


def phase_name(unit: str, text: str) -> str:
    """Return the name of the phase that reports progress with this unit and text."""
    if unit in ("rounds", "generations", "curves") or (unit == "layers" and "error" in text):
        return ALLOCATION
    return next((name for start, name in _BY_TEXT.items() if text.startswith(start)), WORK)


class JobEta:
    """Remaining seconds of a whole job, from the progress of its phases.

    The phase that runs is estimated by its own pace, as soon as that is known, the later ones by their work at the
    pace of all before. Phases that are skipped count no more.
    """

    def __init__(self, plan: tuple[Phase, ...]) -> None:
        self._plan = plan
        self._eta = Eta()
        self._at = -1
        self._began = 0.0
        self._seconds = 0.0
        self._work = 0.0
        self._first = 0.0
        self._steady = Steady()
        self.changed = ""
        """The reason, where the last estimate has moved by more than half since it was steady."""

    def update(self, now: float, done: float, total: float | None, unit: str, text: str) -> float | None:
        """Return the remaining seconds after `done` of a phase's `total`; None while unknown."""
        name = phase_name(unit, text)
        at = next((place for place, phase in enumerate(self._plan) if phase.name == name), self._at)
        if at > self._at or self._at < 0:
            self._enter(now, max(at, 0), done / total if total else 0.0)
        left = self._eta.update(now, done, total)
        seconds = self._remaining(now, done / total if total else 0.0, left)
        self.changed = "" if seconds is None else self._steady.change(now, seconds, name)
        return seconds

    def _enter(self, now: float, at: int, fraction: float) -> None:
        if self._at >= 0 and self._plan[self._at].seconds is None:
            self._seconds += now - self._began
            self._work += self._plan[self._at].work
        self._at, self._began, self._first, self._eta = at, now, fraction, Eta()

    def _remaining(self, now: float, fraction: float, left: float | None) -> float | None:
        """Return the seconds of this phase and of all later ones."""
        phase, elapsed = self._plan[self._at], now - self._began
        here = left if left is not None and fraction - self._first >= min(_LEARNT, 1.0 - self._first) else None
        seconds, work = self._seconds, self._work
        if here is not None and fraction > self._first and phase.seconds is None:
            seconds += elapsed + here
            work += phase.work * (1.0 - self._first)
        pace = seconds / work if seconds > 0.0 and work > 0.0 else None
        if here is None:
            here = _seconds(phase, pace, 1.0 - fraction)
        later = [_seconds(each, pace) for each in self._plan[self._at + 1 :]]
        return None if here is None or None in later else here + sum(each or 0.0 for each in later)


def _seconds(phase: Phase, pace: float | None, share: float = 1.0) -> float | None:
    """Return the seconds of a share of a phase; `pace` is in seconds per work, and None while it is unknown."""
    if phase.seconds is not None:
        return share * phase.seconds
    return None if pace is None else share * phase.work * pace
