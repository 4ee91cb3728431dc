"""The run of a sparse model, the stored runs of the same gates, and its original's results."""

from collections.abc import Iterator, Sequence

from wina_core.specs import (
    DENSE,
    AllocatedSparsity,
    CalibrationSpec,
    Configuration,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    Plan,
    RotationSpec,
    RunSpec,
)
from wina_core.specs.plans import SparsityPlan, UniformSparsity, same_table
from wina_core.specs.studies import StudySpec
from wina_core.store import MetricFilter, Store
from wina_core.store.metric_rows import MetricRow
from wina_core.studies.expand import expand

_SAME = 1e-9
"""Largest difference of two budgets of the same plan."""


def sparse_run(
    source: ModelSource,
    configuration: Configuration,
    plan: UniformSparsity | SparsityPlan,
    calibration: CalibrationSpec | None = None,
    dense_prefix: float = 0.0,
) -> RunSpec:
    """Return the run that a study has of one gated model, files resolved."""
    table = isinstance(plan, SparsityPlan)
    study = StudySpec(
        name="Export",
        models=(source,),
        configurations=(configuration,),
        sparsities=() if table else (plan.budget,),
        plans=(plan,) if table else (),
        calibration=calibration or CalibrationSpec(),
        evaluation=EvaluationSpec(dense_prefix=dense_prefix),
    )
    (run,) = expand(study)
    return run


def measured_run(store: Store, spec: RunSpec) -> RunSpec | None:
    """Return the stored run with results of a run's gates: the run itself, or else the latest one, whatever it
    evaluates; None where nothing is stored."""
    if store.metric_rows(MetricFilter(runs=(spec.content_hash(),))):
        return spec
    return next(
        (
            stored
            for stored in runs_of_plan(store, spec.model, spec.rotation, spec.method, spec.plan)
            if _same_gates(stored, spec)
        ),
        None,
    )


def runs_of_plan(
    store: Store, model: ModelSource, rotation: RotationSpec, method: MethodSpec, plan: Plan
) -> Iterator[RunSpec]:
    """Yield the stored runs with results of a model, rotation, method and plan, the latest first."""
    of_gates = MetricFilter(
        models=(model.content_hash(),),
        rotations=(rotation.label,),
        methods=(method.label,),
        selections=(method.selection,),
    )
    rows = [
        row
        for row in store.metric_rows(of_gates)
        # an allocator meets its budget only nearly
        if not row.superseded and (abs(row.target_sparsity - plan.budget) < _SAME or row.plan == plan.provenance)
    ]
    for run in dict.fromkeys(row.run for row in sorted(rows, key=lambda row: row.finished, reverse=True)):
        stored = store.run_spec(run)
        if stored is not None and stored.rotation == rotation and same_plan(store, stored, plan):
            yield stored


def _same_gates(stored: RunSpec, spec: RunSpec) -> bool:
    """Return whether runs of one plan have the same thresholds and dense prefix."""
    same_text = not spec.method.needs_calibration or stored.calibration == spec.calibration
    return same_text and stored.evaluation.dense_prefix == spec.evaluation.dense_prefix


def same_plan(store: Store, stored: RunSpec, plan: Plan) -> bool:
    """Return whether a stored run has this plan, in whatever form."""
    match stored.plan, plan:
        case SparsityPlan(), SparsityPlan():
            return same_table(plan, stored.plan)
        case UniformSparsity(), SparsityPlan():
            return same_table(plan, stored.plan.for_layout(plan.layout))
        case SparsityPlan(), UniformSparsity():
            return same_table(plan.for_layout(stored.plan.layout), stored.plan)
        case AllocatedSparsity(), SparsityPlan():
            # its table was worked out where the model was, and came back with the numbers
            targets, rho = (store.layer_map(stored.content_hash(), metric) for metric in ("target", "rho"))
            if targets is None or targets.projections != plan.layout.projections:
                return False
            return (targets.values, rho and rho.values) == (plan.sparsity, plan.rho)
    return stored.plan == plan


def original_rows(store: Store, run: RunSpec, rows: Sequence[MetricRow]) -> dict[tuple[str, str], MetricRow]:
    """Return the results of the original model (dense, unrotated, unquantized) on the same requests as a run's rows, by
    task and metric; the latest, where several are stored."""
    of_original = MetricFilter(
        models=(run.model.unquantized.content_hash(),), rotations=("none",), methods=(DENSE.label,)
    )
    latest: dict[tuple[str, str], MetricRow] = {}
    measured = {(row.task, row.metric): row for row in rows if row.unit in run.evaluation.task_names}
    for row in sorted(store.metric_rows(of_original) if measured else (), key=lambda row: row.finished):
        sparse = measured.get((row.task, row.metric))
        if sparse is None or row.superseded or sparse.prompt_hash is None or _requests(sparse) != _requests(row):
            continue
        dense = store.run_spec(row.run)
        if dense is not None and _longest(dense.evaluation, row.unit) == _longest(run.evaluation, row.unit):
            latest[row.task, row.metric] = row
    return latest


def _requests(row: MetricRow) -> tuple[object, ...]:
    return row.unit, row.prompt_hash, row.n, row.version


def _longest(evaluation: EvaluationSpec, task: str) -> int | None:
    """Return the largest number of tokens of a task's completions; None for the task's own."""
    return evaluation.task(task).max_gen_toks if task in evaluation.task_names else None
