"""Products that a job needs and that are not on disk, to be asked about before a long computation begins silently."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

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
    PendingRun,
    RotateJob,
)
from wina_core.jobs.phases import USUAL_HIDDEN_SIZE, Phase, phases
from wina_core.jobs.run_sharing import Group, by_model
from wina_core.model_info import products
from wina_core.model_info.model_folder import read_supported
from wina_core.model_info.resolve import files_of, resolve
from wina_core.records import RotationChoice
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
Kind = Literal["rotation", "quantization", "calibration", "allocation"]


@dataclass(frozen=True)
class MissingProduct:
    """A product that a job would compute first."""

    kind: Kind
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
    own = job.model_copy(update={"spectra": False}) if isinstance(job, RotateJob) else job
    return tuple(each for each in _all_missing(job) if each.job.model_dump() != own.model_dump())


def missing_kinds(job: Job) -> set[Kind]:
    """Return the kinds of products that the job would compute, its own result included."""
    return {each.kind for each in _all_missing(job)}


def missing_by_model(runs: Sequence[PendingRun]) -> dict[Group, set[Kind]]:
    """Return the kinds of products that the runs of each rotated model would compute."""
    return {group: missing_kinds(EvaluateJob(runs=tuple(own))) for group, own in by_model(runs).items()}


def _all_missing(job: Job) -> tuple[MissingProduct, ...]:
    found: dict[str, MissingProduct] = {}
    models = _Models()
    for need in dict.fromkeys(_needs(job)):
        try:
            found |= {key: each for key, each in _missing(need, models).items() if key not in found}
        except (OSError, WinaError):  # the job itself reports a file that cannot be read better
            continue
    return tuple(found.values())


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


def planned_phases(job: Job) -> tuple[Phase, ...]:
    """Return the phases of a job."""
    if isinstance(job, EvaluateJob):  # its client adds up the measurements of all engines
        return phases(job)
    hidden = [hidden_size(model) for model, _ in needed_models(job)[:1]]
    return phases(job, missing_kinds(job), *hidden)


def counts_alone(spec: RunSpec) -> bool:
    """Return whether the cost of a run follows from the sizes of its model, without an allocation or a choice."""
    return not isinstance(spec.plan, AllocatedSparsity) and not spec.rotation.is_auto


def hidden_size(source: ModelSource) -> int:
    """Return a model's hidden size by its config; a usual one where that cannot be read, which the job itself says."""
    return config_number(source, "hidden_size") or USUAL_HIDDEN_SIZE


def config_number(source: ModelSource, name: str) -> int | None:
    """Return a number of a model's config; None where that cannot be read."""
    try:
        return int(read_supported(files_of(source))[0][name])
    except (OSError, WinaError, KeyError, TypeError, ValueError):
        return None


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

    def add(kind: Kind, label: str, job: Job, file: Path, *others: Path, slow: bool) -> None:
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
