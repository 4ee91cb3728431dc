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

    Raises WinaError for a study that was never launched here.
    """
    stored = store.runs(study.content_hash())
    if not stored and study.models:
        raise WinaError(f'The study "{study.name}" has not been launched here; run it first (wina study run).')
    found = []
    for row in stored:
        spec = store.run_spec(row.run)
        assert spec is not None  # it was just listed
        found.append(_named(row.run, spec, study))
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


def _named(run: str, spec: RunSpec, study: StudySpec) -> StudyRun:
    arm = next((arm for arm in study.arms if arm.method == spec.method and _same(arm.rotation, spec.rotation)), None)
    plan = spec.plan
    return StudyRun(
        run=run,
        model=_model_name(spec.model, study),
        quantization=spec.model.quantization,
        arm=(arm and arm.name) or Arm(rotation=spec.rotation, method=spec.method).label,
        method=spec.method.name,
        sparsity=plan.sparsity if isinstance(plan, UniformSparsity) else plan.budget,
        allocation="uniform" if isinstance(plan, UniformSparsity) else plan.origin,
        evaluation=spec.evaluation,
    )


def _model_name(model: ModelSource, study: StudySpec) -> str:
    played = (
        role.name
        for role in study.roles
        for each in study.models
        if each.location == ROLE + role.name and _absolute(role.location) == _absolute(model.location)
    )
    return next(played, None) or model_label(model.model_copy(update={"quantization": "none"}))


def _same(asked: RotationSpec, resolved: RotationSpec) -> bool:
    return _bare(asked) == _bare(resolved)


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
