"""The export of a sparse model with its model card, made from its stored run, the runs of the same gates, and its
original's results.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wina_core.errors import WinaError
from wina_core.files.paths import check_new_folder
from wina_core.jobs import ExportModelJob
from wina_core.model_info.model_checks import read_config
from wina_core.model_info.resolve import files_of
from wina_core.model_info.sharing import last_part
from wina_core.records import METRIC_UNITS
from wina_core.report.findings import chat_template_text
from wina_core.report.rendering import one_line, render_template
from wina_core.report.reproduce import export_command, export_command_notes
from wina_core.specs import (
    COST,
    DENSE,
    FIDELITY,
    ORIGINAL,
    AllocatedSparsity,
    CalibrationSpec,
    Configuration,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    Plan,
    RotationSpec,
    RunSpec,
    quantization_label,
)
from wina_core.specs.plans import SparsityPlan, UniformSparsity, same_table
from wina_core.specs.quantization import printed_quantization
from wina_core.specs.studies import StudySpec
from wina_core.store import MetricFilter, Store
from wina_core.store.rows import MetricRow
from wina_core.studies.expand import expand
from wina_core.studies.published import base_metric

_COST_UNITS = {
    "net_bytes": "bytes per token",
    "mask_bytes": "bytes per token",
    "bytes_held": "bytes",
    "net_flops": "FLOP per token",
    "gated_weights": "weights",
    "bits_read": "bits per weight",
    "bits_held": "bits per weight",
}
"""Units of the totals of a token's cost."""
_ORDER = {ORIGINAL: 0, FIDELITY: 1, COST: 3}
"""Places of the workbench's own units among the tasks, which have 2."""


def export_job(store: Store, spec: RunSpec, folder: Path) -> ExportModelJob:
    """Return the job that writes a run's gated model to a folder, with its card.

    The results on the card are those of the latest stored run with the same gates. Raises WinaError for a dense run and
    a folder in use.
    """
    check_new_folder(folder)
    if spec.method.name == DENSE.name:
        raise WinaError("The dense model drops nothing, so there is no sparse model; choose a run with a method.")
    measured = measured_run(store, spec)
    if measured is None and store.run_spec(spec.content_hash()) is not None:
        measured = spec  # stored, without results
    card = stored_card(store, spec, measured, export_command(spec, folder.name))
    run = measured.content_hash() if measured else ""
    return ExportModelJob(spec=spec, folder=str(folder.absolute()), card=card, run=run)


def stored_card(store: Store, spec: RunSpec, measured: RunSpec | None, command: Sequence[str]) -> str:
    """Return a run's card, Markdown with a YAML head; texts of users are data, and paths lose their folders.

    It has the results of a stored run of the same gates and those of the original model, and decoding at its sparsity,
    which is timed with uniform targets alone.
    """
    timings = [
        row
        for row, point in ((row, row.record.point) for row in store.decode_rows() if not row.superseded)
        if (point.model, point.rotation, point.method) == (spec.model, spec.rotation, spec.method)
        and same_plan(store, spec, UniformSparsity(sparsity=point.sparsity))
        and (point.calibration == spec.calibration or not spec.method.needs_calibration)
    ]
    metrics = store.metric_rows(MetricFilter(runs=(measured.content_hash(),))) if measured else []
    base_model = one_line(last_part(spec.model.location))
    bits = printed_quantization(quantization_label(spec.model.quantization)) or "not quantized"
    facts = {
        "Method": f"{spec.method.label}, {spec.method.selection} selection, {spec.method.masks} masks",
        "Target sparsity": f"{100 * spec.plan.budget:.4g} % of the gated weights, {spec.plan.provenance}",
        "Rotation": spec.rotation.label,
        "Weights": ", ".join(filter(None, (_dtype(spec.model), bits))),
        "Dense prefix": f"{100 * spec.evaluation.dense_prefix:.4g} % of a prompt",
    }
    if spec.method.needs_calibration and spec.calibration:
        facts["Calibration"] = f"{spec.calibration.text.label}, {spec.calibration.thresholds} thresholds"
    return render_template(
        "model_card.md.j2",
        base_model=base_model,
        base_model_json=json.dumps(base_model, ensure_ascii=False),  # also a quoted string of YAML
        main_results=_main_results(metrics),
        facts=facts,
        results=_results(store, measured, metrics) if measured and metrics else None,
        timings=timings,
        command=shlex.join(command).replace("`", "'"),  # which would end the block of code
        command_notes=export_command_notes(spec),
    )


def _results(store: Store, run: RunSpec, metrics: Sequence[MetricRow]) -> dict[str, Any]:
    """Return what the template shows of a run's results, beside the original model's on the same requests."""
    original = original_rows(store, run, metrics)
    summary = store.model_summary(run.model)
    units = {row.unit for row in metrics}
    has_template = summary is not None and summary.chat_template
    settings = {unit: _measured_on(run.evaluation, unit, has_template) for unit in run.evaluation.units}
    return {
        "original": original,
        "rows": [_cells(row, original) for row in sorted(metrics, key=lambda row: _ORDER.get(row.task, 2))],
        "settings": {unit: text for unit, text in settings.items() if unit in units and text},
        "has_tasks": not units.isdisjoint(run.evaluation.task_names),
        "warnings": tuple(dict.fromkeys(row.warning for row in metrics if row.warning)),
    }


def _cells(row: MetricRow, originals: Mapping[tuple[str, str], MetricRow]) -> tuple[str, ...]:
    original = originals.get((row.task, row.metric))
    compared = (f"{original.value:.5g}", f"{row.value - original.value:+.5g}") if original else ("", "")
    return (
        row.task,
        row.metric,
        f"{row.value:.5g}",
        METRIC_UNITS.get(base_metric(row.metric)) or _COST_UNITS.get(row.metric) or "as the task defines it",
        "" if row.stderr is None else f"{row.stderr:.2g}",
        *(compared if originals else ()),
        "" if row.num_fewshot is None else str(row.num_fewshot),
        str(row.n or ""),
    )


def _measured_on(evaluation: EvaluationSpec, unit: str, has_template: bool) -> str:
    """Return the data of a unit in words; empty for a unit without any."""
    if unit == FIDELITY and evaluation.fidelity:
        return f"{evaluation.fidelity.label}, against the same model without gates"
    if unit == ORIGINAL and evaluation.original:
        return f"{evaluation.original.label}, against the original model: dense, unrotated, not quantized"
    if unit == COST:
        return f"counted for a token that attends to {evaluation.cost_context} positions"
    if unit not in evaluation.task_names:
        return ""
    task = evaluation.task(unit)
    details = (
        task.documents,
        f"{task.num_fewshot}-shot" if task.num_fewshot is not None else "few-shot as the task has it",
        chat_template_text(evaluation, has_template),
        f"completions of at most {task.max_gen_toks} tokens" if task.max_gen_toks else "",
        f"local data, {last_part(evaluation.data_folder)}" if evaluation.data_folder else "",
    )
    return ", ".join(filter(None, details))


def _dtype(source: ModelSource) -> str:
    """Return the data type of a model's weights, where it is chosen or its config.json names it."""
    if source.dtype != "auto":
        return source.dtype
    try:
        config = read_config(files_of(source))
    except WinaError:  # the export reports it
        return ""
    return str(config.get("dtype") or config.get("torch_dtype") or "")


def _main_results(metrics: Sequence[MetricRow]) -> list[tuple[str, str]]:
    """Return the results that matter most, those that were measured."""
    values = {(row.task, row.metric): row.value for row in metrics}
    gated = next((row.gated_sparsity for row in metrics if row.gated_sparsity is not None), None)
    main = (
        ("Measured sparsity", gated, 100.0, "% of the gated weights"),
        ("KL divergence from the original model", values.get((ORIGINAL, "kl")), 1.0, "nats per token"),
        ("Same top token as the original model", values.get((ORIGINAL, "top1_agreement")), 100.0, "% of tokens"),
        ("Bytes read per token", values.get((COST, "net_bytes")), 1e-6, "MB"),
    )
    return [(name, f"{value * scale:.4g} {unit}") for name, value, scale, unit in main if value is not None]


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
    for stored in runs_of_plan(store, spec.model, spec.rotation, spec.method, spec.plan):
        same_text = not spec.method.needs_calibration or stored.calibration == spec.calibration
        if same_text and stored.evaluation.dense_prefix == spec.evaluation.dense_prefix:
            return stored
    return None


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
        # An allocator meets its budget only approximately.
        if not row.superseded and (abs(row.target_sparsity - plan.budget) < _SAME or row.plan == plan.provenance)
    ]
    for run in dict.fromkeys(row.run for row in sorted(rows, key=lambda row: row.finished, reverse=True)):
        stored = store.run_spec(run)
        if stored is not None and stored.rotation == rotation and same_plan(store, stored, plan):
            yield stored


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
            # The run has the budget alone: the engine computed the table, and stored it with the numbers.
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
