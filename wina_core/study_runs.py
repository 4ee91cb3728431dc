"""The stored runs of a study under the names that the study gives them: by role, arm and sparsity."""

from dataclasses import dataclass
from pathlib import Path

from wina_core.errors import WinaError
from wina_core.plan import UniformSparsity
from wina_core.sources import demo_folder
from wina_core.specs import (
    DENSE,
    NO_ROTATION,
    ROLE,
    SYNTHETIC,
    Arm,
    EvaluationSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
)
from wina_core.store.columns import model_label
from wina_core.store.reader import Reader
from wina_core.study_specs import StudySpec


@dataclass(frozen=True)
class StudyRun:
    """One run of a study."""

    run: str
    """Its hash."""
    model: str
    """The role it plays, or its own short name."""
    quantization: str
    arm: str
    """The arm's name or, where it has none, its label."""
    method: str
    """The method's name in the registry."""
    sparsity: float
    """The target, 0 for dense."""
    allocation: str
    """How the target is spread: an allocator's label, or a table's origin."""
    evaluation: EvaluationSpec

    @property
    def is_dense(self) -> bool:
        """Whether nothing is gated."""
        return self.method == DENSE.name


def study_runs(store: Reader, study: StudySpec) -> tuple[StudyRun, ...]:
    """The runs of a launched study, in its order, whether or not they are computed. No file of theirs is needed.

    A run stands here once for every role that its model plays and every arm that it is of. Raises WinaError for a study
    that was never launched here.
    """
    stored = store.runs(study.content_hash())
    if not stored and study.models:
        raise WinaError(f'The study "{study.name}" has not been launched here; run it first (wina study run).')
    specs = {row.run: store.run_spec(row.run) for row in stored}
    found = [
        _study_run(run, spec, _model_name(model), arm.name or arm.label)
        for model in dict.fromkeys(study.models)
        for run, spec in specs.items()
        if spec is not None and _bare_model(spec.model, study) == _bare_model(model, study)
        for arm in study.arms
        if _is_of(spec, arm, model)
    ]
    return tuple(found)


def comparable(runs: tuple[StudyRun, ...], baseline: str) -> tuple[tuple[StudyRun, StudyRun], ...]:
    """Each sparse run beside the run of the arm `baseline` with the same model, sparsity and allocation, or beside the
    dense one where that is the baseline. Raises WinaError for an arm that the study does not have."""
    arms = tuple(dict.fromkeys(run.arm for run in runs))
    if baseline not in arms:
        names = ", ".join(f'"{arm}"' for arm in arms)
        raise WinaError(f'The study has no arm "{baseline}"; its arms are: {names}.')
    references = {_place(run): run for run in runs if run.arm == baseline}
    pairs = ((run, references.get(_place(run)) or references.get(_dense_place(run))) for run in runs)
    return tuple((run, reference) for run, reference in pairs if reference and not run.is_dense and run.arm != baseline)


def usual_baseline(runs: tuple[StudyRun, ...]) -> str | None:
    """What the paper compares with, TEAL, where the study has it; else the first sparse arm, or dense beside only one.
    None where there is nothing to compare."""
    sparse = tuple(dict.fromkeys(run.arm for run in runs if not run.is_dense))
    dense = tuple(dict.fromkeys(run.arm for run in runs if run.is_dense))
    if len(sparse) > 1:
        return "TEAL" if "TEAL" in sparse else sparse[0]
    return dense[0] if sparse and dense else None


def _place(run: StudyRun) -> tuple[str, str, float, str]:
    return run.model, run.quantization, run.sparsity, run.allocation


def _dense_place(run: StudyRun) -> tuple[str, str, float, str]:
    return run.model, run.quantization, 0.0, "uniform"


def _study_run(run: str, spec: RunSpec, model: str, arm: str) -> StudyRun:
    plan = spec.plan
    return StudyRun(
        run=run,
        model=model,
        quantization=spec.model.quantization,
        arm=arm,
        method=spec.method.name,
        sparsity=plan.sparsity if isinstance(plan, UniformSparsity) else plan.budget,
        allocation="uniform" if isinstance(plan, UniformSparsity) else plan.origin,
        evaluation=spec.evaluation,
    )


def _model_name(model: ModelSource) -> str:
    if model.location.startswith(ROLE):
        return model.location.removeprefix(ROLE)
    return model_label(model.model_copy(update={"quantization": "none"}))


def _is_of(run: RunSpec, arm: Arm, model: ModelSource) -> bool:
    """Whether a run of this model is one of the arm's."""
    if arm.roles and model.location.removeprefix(ROLE) not in arm.roles:
        return False
    same_method = run.method == arm.method or run.method.name == arm.method.name == DENSE.name
    return same_method and _bare(run.rotation) == _bare(arm.rotation)


def _bare_model(model: ModelSource, study: StudySpec) -> ModelSource:
    """A model with what its role stands for and without the fingerprint that resolving adds."""
    locations = {ROLE + role.name: role.location for role in study.roles}
    location = _absolute(locations.get(model.location, model.location))
    return model.model_copy(update={"location": location, "fingerprint": ""})


def _bare(rotation: RotationSpec) -> RotationSpec:
    """A rotation with absolute paths and without the fingerprints that resolving adds."""
    if rotation.is_identity:
        return NO_ROTATION
    text = rotation.text.model_copy(update={"source": _absolute(rotation.text.source), "fingerprint": ""})
    matrices = None if rotation.matrices is None else _absolute(rotation.matrices)
    return rotation.model_copy(update={"text": text, "matrices": matrices, "matrices_fingerprint": ""})


def _absolute(location: str) -> str:
    """What resolving makes of a location, whether or not anything is there still."""
    if location in ("", "demo", SYNTHETIC) or location.startswith("demo:"):
        return location
    path = Path(location).expanduser().resolve()
    return "demo" if path == (demo_folder() / "model").resolve() else str(path)
