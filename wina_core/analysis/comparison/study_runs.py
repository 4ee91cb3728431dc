"""The stored runs of a study under the names that the study gives them, and the pairs in which they are compared."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from wina_core.analysis.results.measured import (
    DEFAULT_COUNT,
    SparsityKind,
    count_of,
    difference_text,
    mean_over_units,
    measured_sparsity,
    sparsity_of,
)
from wina_core.errors import WinaError
from wina_core.specs import DENSE, EvaluationSpec, quantization_label
from wina_core.specs.studies import StudySpec
from wina_core.store.reader import Reader
from wina_core.store.rows import MetricFilter, MetricRow, UnitRow
from wina_core.studies.run_labels import LabelledRun, distinct, own_label


@dataclass(frozen=True)
class StudyRun:
    """One run of a study."""

    run: str
    """Hash of its spec."""
    model: str
    """As `RunLabel.model`."""
    quantization: str
    """As `quantization_label`."""
    configuration: str
    """As `RunLabel.configuration`."""
    method: str
    """The method's name in the registry."""
    target_sparsity: float
    """As a fraction, 0 for dense."""
    gated_sparsity: float | None
    """The mean over the units that measured it (`wina_core.analysis.results.measured.Count`); None while none did."""
    net_sparsity: float | None
    """As `gated_sparsity`."""
    allocation: str
    """As `RunLabel.allocation`."""
    evaluation: EvaluationSpec

    @property
    def is_dense(self) -> bool:
        return self.method == DENSE.name


def study_runs(store: Reader, study: StudySpec) -> tuple[StudyRun, ...]:
    """Return the runs of a launched study, in its order, whether or not they are computed. No file of theirs is needed.

    A run has one entry for every role that its model plays and every configuration that it is of; no two entries are
    labelled alike. Runs that were stored without the study's names have their own. Raises WinaError for a study that
    was never launched here.
    """
    name = study.content_hash()
    specs = store.run_specs(name)
    if not specs and study.models:
        raise WinaError(f'The study "{study.name}" has not been launched here; run it first (wina study run).')
    labels = store.run_labels(name)
    if labels:
        labelled = [LabelledRun(specs[label.run], label) for label in labels if label.run in specs]
    else:
        labelled = [LabelledRun(spec, own_label(spec)) for spec in specs.values()]
    old = store.superseded_runs(name)
    labelled = [
        LabelledRun(run.spec, run.label._replace(configuration=f"{run.label.configuration} (superseded)"))
        if run.label.run in old
        else run
        for run in labelled
    ]
    units: dict[str, list[UnitRow]] = {}
    for unit in store.units(name):
        units.setdefault(unit.run, []).append(unit)
    return tuple(_study_run(run, units.get(run.label.run, ())) for run in distinct(labelled))


def stored_run(store: Reader, run: str) -> StudyRun:
    """Return the run with this hash under its own names, whatever studies it is part of.

    Raises WinaError for a run that is not stored.
    """
    spec = store.run_spec(run)
    if spec is None:
        raise WinaError(f"The run {run[:8]} is not stored here; wina export lists the runs with their hashes.")
    return _study_run(LabelledRun(spec, own_label(spec)), store.metric_rows(MetricFilter(runs=(run,))))


def shared_study(store: Reader, *runs: str) -> StudySpec | None:
    """Return the last launched study that all these runs, which have results, are part of; None where they share none.

    `runs` are their hashes. Reads only rows of these runs, so that many studies and runs cost little.
    """
    for study in store.studies():
        if {row.run for row in store.metric_rows(MetricFilter(study=study.study, runs=runs))} == set(runs):
            return store.study_spec(study.study)
    return None


def comparable(
    runs: tuple[StudyRun, ...], baseline: str, by: SparsityKind = DEFAULT_COUNT
) -> tuple[tuple[StudyRun, StudyRun], ...]:
    """Pair each sparse run with a run of the configuration `baseline` of the same model and quantization, and of
    the same allocation if it has any.

    The measured sparsities of a pair are the nearest; among equally near ones the targets are. A run without
    measurements, and any with the kind "target", is paired by equal target. A dense baseline is paired with every run.
    Raises WinaError for a configuration that the study does not have.
    """
    configurations = tuple(dict.fromkeys(run.configuration for run in runs))
    if baseline not in configurations:
        names = ", ".join(f'"{configuration}"' for configuration in configurations)
        raise WinaError(f'The study has no configuration "{baseline}"; its configurations are: {names}.')
    references = [run for run in runs if run.configuration == baseline]
    sparse = (run for run in runs if not run.is_dense and run.configuration != baseline)
    pairs = ((run, _reference(run, references, by)) for run in sparse)
    return tuple((run, reference) for run, reference in pairs if reference is not None)


def pair_flag(run: StudyRun, reference: StudyRun, by: SparsityKind = DEFAULT_COUNT) -> str:
    """Return how far the measured sparsities of a pair differ, "" within tolerance and beside a dense run."""
    if run.is_dense or reference.is_dense:
        return ""
    count = count_of(by)
    return difference_text(sparsity_of(run, count), sparsity_of(reference, count))


def usual_baseline(runs: tuple[StudyRun, ...]) -> str | None:
    """Return TEAL, which the paper compares with, where the study has it; else the first sparse configuration, or dense
    beside only one. None where there is nothing to compare."""
    sparse = tuple(dict.fromkeys(run.configuration for run in runs if not run.is_dense))
    dense = tuple(dict.fromkeys(run.configuration for run in runs if run.is_dense))
    if len(sparse) > 1:
        return "TEAL" if "TEAL" in sparse else sparse[0]
    return dense[0] if sparse and dense else None


def _reference(run: StudyRun, references: Iterable[StudyRun], by: SparsityKind) -> StudyRun | None:
    """Return the reference at the nearest sparsity; None where none can be compared."""
    kind = by if by != "target" and measured_sparsity(run, by) is not None else "target"

    def is_candidate(other: StudyRun) -> bool:
        if (other.model, other.quantization) != (run.model, run.quantization):
            return False
        same_target = kind != "target" or other.target_sparsity == run.target_sparsity
        return other.is_dense or same_target

    def distance(other: StudyRun) -> tuple[float, float]:
        apart = abs(sparsity_of(run, kind) - sparsity_of(other, kind))
        # Rounded, so that distances equal but for rounding leave the choice to the targets.
        return round(apart, 9), abs(run.target_sparsity - other.target_sparsity)

    candidates = list(filter(is_candidate, references))
    alike = [other for other in candidates if other.is_dense or other.allocation == run.allocation]
    return min(alike or candidates, key=distance, default=None)


def _study_run(run: LabelledRun, units: Collection[UnitRow | MetricRow]) -> StudyRun:
    spec, label = run
    return StudyRun(
        run=label.run,
        model=label.model,
        quantization=quantization_label(spec.model.quantization),
        configuration=label.configuration,
        method=spec.method.name,
        target_sparsity=spec.plan.budget,
        gated_sparsity=mean_over_units({unit.unit: unit.gated_sparsity for unit in units}),
        net_sparsity=mean_over_units({unit.unit: unit.net_sparsity for unit in units}),
        allocation=label.allocation,
        evaluation=spec.evaluation,
    )
