"""The run of a sparse model, the stored runs of the same gates, and the command that exports it."""

from collections.abc import Iterator

from wina_core.sources.names import last_part
from wina_core.specs import (
    USUAL_EFFORT,
    AllocatedSparsity,
    CalibrationSpec,
    Configuration,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    Plan,
    QuantizationSpec,
    RotationSpec,
    RunSpec,
)
from wina_core.specs.plans import SparsityPlan, UniformSparsity, same_table
from wina_core.specs.studies import StudySpec
from wina_core.store import MetricFilter, Store
from wina_core.studies.expand import expand

_HASH = 12
"""Characters of a run's hash in a command."""
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
            each
            for each in runs_of_plan(store, spec.model, spec.rotation, spec.method, spec.plan)
            if _same_gates(each, spec)
        ),
        None,
    )


def runs_of_plan(
    store: Store, model: ModelSource, rotation: RotationSpec, method: MethodSpec, plan: Plan
) -> Iterator[RunSpec]:
    """Yield the stored runs with results of a model, rotation, method and plan, the latest first."""
    wanted = MetricFilter(
        models=(model.content_hash(),),
        rotations=(rotation.label,),
        methods=(method.label,),
        selections=(method.selection,),
    )
    rows = [
        row
        for row in store.metric_rows(wanted)
        # an allocator meets the budget that it was asked for only nearly
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


def export_command(spec: RunSpec, run: str, folder: str) -> tuple[str, ...]:
    """Return the words of `wina export-model` for a stored run, or else the flags of a run, without folders; none for
    an allocation, which no flag names."""
    command = ("wina", "export-model", last_part(folder))
    if run:
        return *command, "--run", run[:_HASH]
    if isinstance(spec.plan, AllocatedSparsity):
        return ()
    method, rotation = spec.method, spec.rotation
    sparsity = ("--plan", "plan.wina.json") if isinstance(spec.plan, SparsityPlan) else ("--sparsity", spec.plan.budget)
    flags = {
        "--dtype": (spec.model.dtype, "auto"),
        "--variant": (method.variant, "paper"),
        "--selection": (method.selection, "topk"),
        "--masks": (method.masks, "separate"),
        "--correction": (method.correction, "none"),
        "--rho": (method.rho, None),
        "--rotation": (rotation.mode, "none"),
        "--objective": (rotation.objective, "eigen"),
        "--rotation-steps": (rotation.steps, USUAL_EFFORT[rotation.objective][0]),
        "--rotation-bits": (rotation.noise_bits, 16),
        "--weighting": (rotation.weighting, "trace"),
        "--fold-norms": (rotation.fold_norms, "exact" if rotation.turns else "none"),
        "--matrices": (rotation.matrices and last_part(rotation.matrices), None),
        "--thresholds": (spec.calibration.thresholds if spec.calibration else "gated", "gated"),
        "--dense-prefix": (spec.evaluation.dense_prefix, 0.0),
    }
    given = [word for flag, (value, usual) in flags.items() if value != usual for word in (flag, value)]
    words = ["--model", last_part(spec.model.location), "--method", method.name, *sparsity, *given, *_bits(spec.model)]
    if rotation.per_head != (rotation.mode != "none"):
        words.append("--rotate-heads" if rotation.per_head else "--no-rotate-heads")
    return *command, *map(str, words)


def _bits(source: ModelSource) -> tuple[object, ...]:
    """Return the flags of a model's quantization; a plan of bits is in the plan's file."""
    bits = source.quantization
    if not isinstance(bits, QuantizationSpec):
        return () if bits == "none" else ("--quantization", bits)
    if not isinstance(bits.bits, float):
        return ()
    by_energy = ("--by-energy",) if bits.by_energy else ()
    return "--bits", f"{bits.bits:g}", "--quantizer", bits.quantizer, *by_energy
