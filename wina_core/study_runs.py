"""The stored runs of a study under the names that the study gives them: by role, arm and sparsity."""

from dataclasses import dataclass

from wina_core.errors import WinaError
from wina_core.run_labels import LabelledRun, distinct, own_label
from wina_core.specs import DENSE, EvaluationSpec
from wina_core.store.reader import Reader
from wina_core.study_specs import StudySpec


@dataclass(frozen=True)
class StudyRun:
    """One run of a study."""

    run: str
    """Its hash."""
    model: str
    """As `RunLabel.model`."""
    quantization: str
    arm: str
    """As `RunLabel.arm`."""
    method: str
    """The method's name in the registry."""
    sparsity: float
    """The target, 0 for dense."""
    allocation: str
    """As `RunLabel.allocation`."""
    evaluation: EvaluationSpec

    @property
    def is_dense(self) -> bool:
        """Whether nothing is gated."""
        return self.method == DENSE.name


def study_runs(store: Reader, study: StudySpec) -> tuple[StudyRun, ...]:
    """The runs of a launched study, in its order, whether or not they are computed. No file of theirs is needed.

    A run stands here once for every role that its model plays and every arm that it is of, and no two in one place.
    Runs that were stored without the study's names for them have their own. Raises WinaError for a study that was never
    launched here.
    """
    name = study.content_hash()
    specs = store.run_specs(name)
    if not specs and study.models:
        raise WinaError(f'The study "{study.name}" has not been launched here; run it first (wina study run).')
    labels = store.run_labels(name)
    if labels:
        found = [LabelledRun(specs[label.run], label) for label in labels if label.run in specs]
    else:
        found = [LabelledRun(spec, own_label(spec)) for spec in specs.values()]
    return tuple(map(_study_run, distinct(found)))


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


def _study_run(run: LabelledRun) -> StudyRun:
    spec, label = run
    return StudyRun(
        run=label.run,
        model=label.model,
        quantization=spec.model.quantization,
        arm=label.arm,
        method=spec.method.name,
        sparsity=spec.plan.budget,
        allocation=label.allocation,
        evaluation=spec.evaluation,
    )
