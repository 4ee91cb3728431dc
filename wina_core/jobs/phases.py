"""The phases of a job and the remaining time of all of them, in one unit of work."""

from collections.abc import Collection
from dataclasses import dataclass

from wina_core.jobs.job_specs import (
    AllocateJob,
    AllocateJointlyJob,
    CalibrateJob,
    DecodeJob,
    ExportGgufJob,
    ExportModelJob,
    GenerateJob,
    InspectGateJob,
    InspectJob,
    Job,
    RotateJob,
)
from wina_core.jobs.progress import Eta, Steady
from wina_core.model_info.cost.refinement import MEASURED_TOKENS
from wina_core.model_info.products import searched
from wina_core.specs import (
    NO_ROTATION,
    AllocatedSparsity,
    AllocatorSpec,
    CalibrationSpec,
    MethodSpec,
    ModelSource,
    Quantization,
    RotationSpec,
)
from wina_core.specs.gates import CORRECTION_PASSES, CORRECTION_TOKENS, TUNING_STEPS
from wina_core.specs.latency import missing_points
from wina_core.specs.rotations import (
    COMPARED_ROWS,
    COMPARED_SEQUENCE,
    COMPARED_TOKENS,
    auto_candidates,
    refined_candidate,
)

LOAD, ENERGIES = "reading the weights", "the orthogonality"
MOMENTS, SENSITIVITIES = "the moments", "the sensitivities"
REFINEMENT, DIVERGENCE = "the refinement", "the refinement on KL"
COMPARISON, SPECTRA = "the comparison of rotations", "the spectra"
SAMPLING = "the sampling of text"
ROTATION, CALIBRATION = "rotating", "the calibration"
OUTPUTS, INPUTS, QUANTIZATION = "the sensitivities of outputs", "the energies of inputs", "quantizing"
CORRECTION, TUNING = "the correction of thresholds", "the tuning of biases"
ALLOCATION, REFERENCE, WORK = "the allocation", "the original", "this step"
_BY_TEXT = {
    "reading": LOAD,
    "fetching": LOAD,
    "orthogonality": ENERGIES,
    "log-probabilities": REFERENCE,
    "measuring": MOMENTS,
    "sensitivities of outputs": OUTPUTS,
    "sensitivities": SENSITIVITIES,
    "energies": INPUTS,
    "quantizing": QUANTIZATION,
    "basis": REFINEMENT,
    "KL": DIVERGENCE,
    "comparing": COMPARISON,
    "sampling": SAMPLING,
    "spectra": SPECTRA,
    "rotating": ROTATION,
    "modes": CALIBRATION,
    "score": CALIBRATION,
    "correcting": CORRECTION,
    "tuning": TUNING,
}
"""Phase by the beginning of the text of its progress; the first that fits counts."""
_TUNING_PASSES = 4
"""Passes of a row in a step: forward through the dense and the gated model, and back."""
_OVERHEAD = 4_000.0
"""Work of a phase that reads the weights once."""
_LOADING = 2_000.0
USUAL_HIDDEN_SIZE = 2048
"""A usual hidden size, where it is unknown."""
_TURNING, _MEASURING = 7.5, 2.0
"""Work of rotating the weights, and of measuring their orthogonality, for each number of the hidden size: products of
every weight with so many."""
_EIGENVALUES = 4.0
"""The same of the eigenvalues of the second moments of the inputs, by their measured time."""
_COMPENSATING = 3.5
"""The same of GPTQ's compensation of errors."""
_ROUNDING = {"int8": 2_500.0, "int4": 100_000.0, "rtn": 70_000.0, "hqq": 180_000.0, "planes": 15_000.0}
"""Work of rounding every weight, by quantizer: ranges and zeros are searched for."""
_SAMPLING = 4.0 * COMPARED_ROWS * COMPARED_SEQUENCE
"""Work of sampling the rows that rotations are compared on: a step for each position takes 3 to 6 times a whole row."""
_MARGINAL_PASSES, _MARGINAL_TOKENS = 45, 2048
"""Passes of the allocator `marginal`, two rounds of a probe for each band of cells, and the tokens of each."""
ALL_KINDS = ("rotation", "quantization", "calibration", "allocation")
"""The kinds of products."""
_OF_PRODUCT = {
    "rotation": {ENERGIES, MOMENTS, SENSITIVITIES, REFINEMENT, DIVERGENCE, SAMPLING, COMPARISON},
    "quantization": {OUTPUTS, INPUTS, QUANTIZATION},
    "calibration": {CALIBRATION},
    "allocation": {ALLOCATION},
}
"""Phases of finding each kind of product."""
_LEARNT = 0.03
"""Fraction of a phase after which its own pace counts."""


@dataclass(frozen=True)
class Phase:
    """A part of a job; its work is in forward passes of one token, a rough guess until its own pace is known."""

    name: str
    work: float
    seconds: float | None = None
    """Its time, where a budget says it; its work counts for no other phase then."""


def phases(job: Job, missing: Collection[str] = ALL_KINDS, hidden: int = USUAL_HIDDEN_SIZE) -> tuple[Phase, ...]:
    """Return the phases of a job, in order; `missing` are the kinds of products that are not on disk, `hidden` the
    hidden size of its model."""
    match job:
        case InspectJob():
            model, rotation = job.model, NO_ROTATION
        case AllocateJointlyJob():
            model, rotation = job.model.unquantized, job.rotation
        case RotateJob() | CalibrateJob() | AllocateJob() | InspectGateJob() | ExportGgufJob():
            model, rotation = job.model, job.rotation
        case DecodeJob() | ExportModelJob():
            model, rotation = job.spec.model, job.spec.rotation
        case GenerateJob():
            model = job.model
            rotation = next((each.rotation for each in job.configurations if not each.is_dense), RotationSpec())
        case _:
            return Phase(LOAD, _LOADING), Phase(WORK, _OVERHEAD)
    found = preparing(model, rotation, missing, hidden)
    if isinstance(job, RotateJob):
        found = _comparing(job, missing, found, hidden)
    match job:
        case CalibrateJob():
            found += calibrating(job.calibration)
        case AllocateJob():
            found += allocating(job.method, job.plan, job.calibration, missing)
        case AllocateJointlyJob():
            for variant in _variants(job):
                found += preparing(variant, job.rotation, ["quantization"], hidden)
            found.append(Phase(WORK, _OVERHEAD))
        case InspectJob() | RotateJob():
            pass
        case DecodeJob():
            plans = len(set(job.spec.sparsities))
            found += gating(job.spec.method, job.spec.calibration, missing, plans)
            found.append(Phase(WORK, _OVERHEAD, _budget(job)))
        case ExportModelJob():
            found += gating(job.spec.method, job.spec.calibration, missing)
            found.append(Phase(WORK, _OVERHEAD))
        case GenerateJob():
            for each in job.configurations:
                found += gating(each.method, each.calibration, missing)
            found.append(Phase(WORK, _OVERHEAD))
        case _:
            found.append(Phase(WORK, _OVERHEAD))
    return tuple(found)


def _comparing(job: RotateJob, missing: Collection[str], found: list[Phase], hidden: int) -> list[Phase]:
    """Return the phases of a rotation with those of its spectra and of its comparison with none before it rotates."""
    if job.spectra:
        found.insert(1, Phase(SPECTRA, 2.0 * COMPARED_TOKENS + _EIGENVALUES * hidden))
    if not job.rotation.is_auto and "rotation" in missing:
        found[-1:-1] = [Phase(SAMPLING, _SAMPLING), Phase(COMPARISON, 3.0 * COMPARED_TOKENS)]
    return found


def _variants(job: AllocateJointlyJob) -> list[ModelSource]:
    """Return the models that a joint allocation prepares after the original, in order."""
    model, spec = job.model.unquantized, job.spec
    if spec.in_planes:
        return [model.model_copy(update={"quantization": spec.in_planes_held})]
    return [*(model.model_copy(update={"quantization": spec.quantized(bits)}) for bits in spec.choices), model]


def _budget(job: DecodeJob) -> float | None:
    """Return the seconds of all points that are stored nowhere; None without a budget."""
    if job.spec.budget_seconds is None:
        return None
    stored = {point for points in job.stored.values() for point in points}
    return job.spec.budget_seconds * len(missing_points(job.spec.points(), stored)[1])


def preparing(
    model: ModelSource, rotation: RotationSpec, missing: Collection[str], hidden: int = USUAL_HIDDEN_SIZE
) -> list[Phase]:
    """Return the phases of loading, rotating and quantizing a model of a hidden size."""
    found = [Phase(LOAD, _LOADING)]
    if not rotation.is_identity:
        turning = Phase(ROTATION, _TURNING * hidden)
        found += [*_search_phases(rotation, hidden), turning] if "rotation" in missing else [turning]
    return [*found, *_quantizing(model.quantization, missing, hidden)]


def _quantizing(spec: Quantization, missing: Collection[str], hidden: int) -> list[Phase]:
    if spec == "none":
        return []
    rounding = _ROUNDING.get(spec if isinstance(spec, str) else spec.quantizer, _COMPENSATING * hidden)
    if isinstance(spec, str) or not spec.reads_text:
        return [Phase(QUANTIZATION, rounding)]
    if "quantization" not in missing:
        return [Phase(QUANTIZATION, _LOADING)]
    read, planes = float(spec.text.tokens), spec.quantizer == "planes"
    found = []
    if spec.by_energy:
        found += [Phase(OUTPUTS, 0.75 * read), Phase(INPUTS, (1 if planes else 2) * read)]
    return [*found, Phase(QUANTIZATION, rounding + (0 if planes else 2) * read)]


def product_work(kind: str, job: Job, hidden: int) -> float:
    """Return the work of a missing product of this kind by the job that computes it."""
    return sum(phase.work for phase in phases(job, (kind,), hidden) if phase.name in _OF_PRODUCT[kind])


def _search_phases(spec: RotationSpec, hidden: int) -> list[Phase]:
    if spec.is_auto:
        candidates = auto_candidates(spec)
        compared = Phase(COMPARISON, (1.0 + len(candidates)) * COMPARED_TOKENS)
        found = [Phase(MOMENTS, 1.5 * candidates[-1].text.tokens), Phase(SAMPLING, _SAMPLING), compared]
        refined = refined_candidate(spec, candidates[-1])
        more = [] if refined is None else [*_search_phases(refined, hidden), Phase(COMPARISON, 3.0 * COMPARED_TOKENS)]
        return [*found, *more, Phase(ENERGIES, _MEASURING * hidden)]
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


def gating(method: MethodSpec, spec: CalibrationSpec | None, missing: Collection[str], plans: int = 1) -> list[Phase]:
    """Return the phases of calibrating a method, and of correcting its thresholds and tuning it for some plans."""
    spec = spec or CalibrationSpec()
    once = calibrating(spec) if method.untuned.needs_calibration and "calibration" in missing else []
    of_each = []
    if method.selection != "topk" and spec.thresholds != "dense":
        of_each.append(Phase(CORRECTION, float(CORRECTION_PASSES * min(spec.text.tokens, CORRECTION_TOKENS))))
    if method.is_tuned:
        of_each.append(Phase(TUNING, float(_TUNING_PASSES * TUNING_STEPS * spec.text.sequence)))
    return once + of_each * plans


def allocating(
    method: MethodSpec, plan: AllocatedSparsity, spec: CalibrationSpec | None, missing: Collection[str]
) -> list[Phase]:
    """Return the phases of an allocation."""
    needs = searched(method, plan.allocator).needs_calibration and "calibration" in missing
    before = calibrating(spec or CalibrationSpec()) if needs else []
    return [*before, Phase(ALLOCATION, _allocation_work(plan.allocator))]


def _allocation_work(spec: AllocatorSpec) -> float:
    """Return the work of a search on a model of medium depth."""
    if spec.name == "marginal":
        return _MARGINAL_PASSES * min(_MARGINAL_TOKENS, spec.text.tokens)
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
        self._fraction = 0.0
        self._steady = Steady()
        self.changed = ""
        """The reason, where the last estimate has moved by more than half since it was steady."""

    def update(self, now: float, done: float, total: float | None, unit: str, text: str) -> float | None:
        """Return the remaining seconds after `done` of a phase's `total`; None while unknown."""
        name = phase_name(unit, text)
        fraction = done / total if total else 0.0
        anew = name != LOAD and fraction < self._fraction  # as of the next configuration
        first = self._at + anew
        self._fraction = fraction
        at = next((place for place, phase in enumerate(self._plan) if place >= first and phase.name == name), self._at)
        if at > self._at or self._at < 0:
            self._enter(now, max(at, 0), fraction)
        left = self._eta.update(now, done, total)
        seconds = self._remaining(now, fraction, left)
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
