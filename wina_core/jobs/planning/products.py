"""Products that a job needs and that are not on disk, to be asked about before a long computation begins silently."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wina_core.errors import WinaError
from wina_core.jobs import (
    AllocateJob,
    AllocateJointlyJob,
    CalibrateJob,
    DecodeJob,
    EstimateJob,
    EvaluateJob,
    ExportGgufJob,
    ExportModelJob,
    GenerateJob,
    InspectGateJob,
    InspectJob,
    Job,
    RotateJob,
)
from wina_core.model_info import products
from wina_core.model_info.resolve import files_of, resolve
from wina_core.records import ProductKind, RotationChoice
from wina_core.specs import (
    COST,
    NO_ROTATION,
    SYNTHETIC,
    AllocatedSparsity,
    CalibrationSpec,
    MethodSpec,
    ModelSource,
    Plan,
    QuantizationSpec,
    RotationSpec,
    RunSpec,
)
from wina_core.specs.methods import get_method
from wina_core.specs.plans import SparsityPlan

LONG_SECONDS = 60.0
"""Duration from which a product is worth a question."""


@dataclass(frozen=True)
class MissingProduct:
    """A product that a job would compute first."""

    kind: ProductKind
    label: str
    """Its name, for example "global refined + heads", "scap" or "curves"."""
    job: Job
    """The job that computes it alone."""
    seconds: float | None = None
    """Duration of an earlier computation; None if it was never computed here."""
    begun: bool = False
    """True if finished stages of an interrupted computation are on disk, from which it continues."""
    slow: bool = False
    """True if it is taken for long while its duration is unknown."""

    @property
    def is_long(self) -> bool:
        """Return whether it takes a minute or more: by its last duration, or else any search but the demo model's."""
        return self.slow if self.seconds is None else self.seconds >= LONG_SECONDS


@dataclass(frozen=True)
class _Need:
    """A rotated model, and the method whose products are needed; None for the rotation alone."""

    model: ModelSource
    rotation: RotationSpec
    method: MethodSpec | None = None
    calibration: CalibrationSpec | None = None
    plan: Plan | None = None


class _Models:
    """Resolved sources and identities of models; each model's files are read once for all runs."""

    def __init__(self) -> None:
        self.resolve = cache(resolve)
        self.identity = cache(lambda source: products.identity(source, files_of(source)))


def missing_products(job: Job) -> tuple[MissingProduct, ...]:
    """Return the products that the job needs beside its own result, and that are not on disk, in the order of need.

    Without torch and without loading the model, but it digests files: call it on no thread that must answer. What
    cannot be known, such as of a model that is not downloaded, is left out.
    """
    own = (job.model_copy(update={"spectra": False}) if isinstance(job, RotateJob) else job).model_dump()
    found: dict[str, MissingProduct] = {}
    models = _Models()
    for need in dict.fromkeys(_needs(job)):
        try:
            found |= {key: each for key, each in _missing(need, models).items() if key not in found}
        except (OSError, WinaError):  # the job itself reports a file that cannot be read better
            continue
    return tuple(product for product in found.values() if product.job.model_dump() != own)


def stored_seconds(job: Job) -> dict[str, float]:
    """Return the seconds of an earlier computation of the products that a job computes first, by kind, where they are
    known; nothing of an evaluation or an estimate, whose time left is that of measurements. Digests files, too."""
    seconds: dict[str, float] = {}
    for product in () if isinstance(job, EvaluateJob | EstimateJob) else missing_products(job):
        if product.seconds is not None:
            seconds[product.kind] = seconds.get(product.kind, 0.0) + product.seconds
    return seconds


def missing_rotation(model: ModelSource, rotation: RotationSpec) -> MissingProduct | None:
    """Return a rotation that is not on disk; None if it is, or if that cannot be known. Digests files, too."""
    try:
        found = _missing(_Need(model, rotation), _Models()).values()
        return next((each for each in found if each.kind == "rotation"), None)
    except WinaError:  # the job itself reports a missing file better
        return None


def needed_models(job: Job) -> tuple[tuple[ModelSource, RotationSpec], ...]:
    """Return the models that a job loads, with their rotations."""
    return tuple(dict.fromkeys((need.model, need.rotation) for need in _needs(job)))


def counts_alone(spec: RunSpec) -> bool:
    """Return whether the cost of a run follows from the sizes of its model, without an allocation or a choice."""
    return not isinstance(spec.plan, AllocatedSparsity) and not spec.rotation.is_auto


def _needs(job: Job) -> Iterator[_Need]:
    match job:
        case EvaluateJob():
            for run in job.runs:
                if set(run.units) <= ({COST, SYNTHETIC} if counts_alone(run.spec) else {SYNTHETIC}):
                    continue
                yield _of_run(run.spec)
        case EstimateJob():
            yield from (
                _Need(run.spec.model, NO_ROTATION) for run in job.runs if not {COST, SYNTHETIC}.issuperset(run.units)
            )
        case InspectGateJob():
            yield _Need(job.model, job.rotation)
            for gate in job.gates:
                yield _Need(job.model, job.rotation, gate.method, job.calibration)
        case GenerateJob():
            for each in job.configurations:
                if not each.is_dense:
                    yield _Need(job.model, each.rotation, each.method, each.calibration, each.plan)
        case ExportModelJob():
            yield _of_run(job.spec)
        case DecodeJob():
            yield _Need(job.spec.model, job.spec.rotation, job.spec.method, job.spec.calibration)
        case InspectJob():
            yield _Need(job.model, NO_ROTATION)
        case RotateJob() | ExportGgufJob():
            yield _Need(job.model, job.rotation)
        case CalibrateJob():
            yield _Need(job.model, job.rotation)
        case AllocateJointlyJob():
            yield _Need(job.model.unquantized, job.rotation)
        case AllocateJob():
            yield _Need(job.model, job.rotation, job.method, job.calibration, job.plan)
        case _:
            return


def _chosen(file: Path) -> RotationSpec | None:
    """Return the rotation that a kept choice names; None without one, whose damage the job itself reports."""
    try:
        return RotationChoice.model_validate_json(file.read_bytes()).rotation
    except (OSError, ValueError):
        return None


def _of_run(spec: RunSpec) -> _Need:
    return _Need(spec.model, spec.rotation, spec.method, spec.calibration, spec.plan)


def _missing(need: _Need, models: _Models) -> Mapping[str, MissingProduct]:
    """Return the missing products of one need by their keys."""
    found: dict[str, MissingProduct] = {}

    def add(kind: ProductKind, label: str, job: Job, file: Path, *others: Path, slow: bool) -> None:
        if not any(each.exists() for each in (file, *others)):
            begun = any(map(products.has_stages, (file, *others)))
            seconds = [products.remembered_seconds(each.stem) for each in (file, *others)]
            known = next((each for each in seconds if each is not None), None)
            found[file.stem] = MissingProduct(kind, label, job, known, begun, slow)

    method, plan = need.method, need.plan
    source = models.resolve(need.model)
    real = source.location != "demo"
    rotation = need.rotation
    if rotation.is_auto:
        file = products.choice_file(models.identity(source.unquantized), rotation)
        slow = real and rotation.objective != "eigen"
        add("rotation", rotation.label, RotateJob(model=need.model, rotation=rotation), file, slow=slow)
        rotation = _chosen(file) or rotation
    if not rotation.is_identity and not rotation.is_auto and not rotation.matrices:
        plain = models.identity(source.unquantized)
        files = [products.bases_file(plain, rotation, whole=whole) for whole in (True, False)]
        slow = rotation.objective != "eigen" or (real and rotation.weighting == "sensitivity")
        add("rotation", rotation.label, RotateJob(model=need.model, rotation=rotation), *files, slow=slow)
    if isinstance(source.quantization, QuantizationSpec) and source.quantization.reads_text:
        file = products.quantized_file(models.identity(source.unquantized), rotation, source.quantization)
        alone = InspectJob(model=need.model) if rotation.is_identity else RotateJob(model=need.model, rotation=rotation)
        add("quantization", source.quantization.label, alone, file, slow=real)
    if method is None:
        return found
    model = models.identity(source)
    spec = need.calibration or CalibrationSpec()
    if isinstance(plan, AllocatedSparsity):
        one = products.searched(method, plan.allocator)
        file, _ = products.allocation_files(model, rotation, one, plan, spec if one.needs_calibration else None)
        allocation = AllocateJob(model=need.model, rotation=rotation, method=method, plan=plan, calibration=spec)
        add("allocation", plan.provenance, allocation, file, slow=real and plan.allocator.name != "uniform")
    if method.untuned.needs_calibration:
        shares = plan if isinstance(plan, SparsityPlan) and plan.rho is not None else None
        shares = shares if get_method(method).scores_by_shares else None
        key = products.calibration_key(model, rotation, method, spec, shares)
        calibration = CalibrateJob(model=need.model, rotation=rotation, method=method, calibration=spec)
        add("calibration", method.label, calibration, products.calibration_file(key), slow=real)
    return found
