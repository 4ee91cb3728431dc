"""The export of a sparse model with its model card, made from its stored run."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from wina_core.errors import WinaError
from wina_core.files.paths import check_new_folder
from wina_core.jobs import ExportModelJob
from wina_core.model_info.model_checks import read_config
from wina_core.model_info.names import last_part
from wina_core.model_info.resolve import files_of
from wina_core.records import METRIC_UNITS
from wina_core.report.findings import chat_template_text
from wina_core.report.rendering import one_line, render_template
from wina_core.report.reproduce import export_command, export_command_notes
from wina_core.report.sparse_runs import measured_run, original_rows, same_plan
from wina_core.specs import COST, DENSE, FIDELITY, ORIGINAL, EvaluationSpec, ModelSource, RunSpec, quantization_label
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.quantization import printed_quantization
from wina_core.store import MetricFilter, Store
from wina_core.store.metric_rows import MetricRow
from wina_core.store.timings import DecodeRow
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


class CardResults(NamedTuple):
    """A stored run's results."""

    metrics: Sequence[MetricRow]
    original: Mapping[tuple[str, str], MetricRow]
    """The original model's on the same requests, by task and metric."""
    evaluation: EvaluationSpec
    has_template: bool
    """True where the model is known to have a chat template."""

    @property
    def has_tasks(self) -> bool:
        """True with results of tasks."""
        return any(row.unit in self.evaluation.task_names for row in self.metrics)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return sentences on the use of the numbers."""
        return tuple(dict.fromkeys(row.warning for row in self.metrics if row.warning))

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Cells of the card's table."""
        return [self._cells(row) for row in sorted(self.metrics, key=lambda row: _ORDER.get(row.task, 2))]

    def _cells(self, row: MetricRow) -> tuple[str, ...]:
        original = self.original.get((row.task, row.metric))
        compared = (f"{original.value:.5g}", f"{row.value - original.value:+.5g}") if original else ("", "")
        return (
            row.task,
            row.metric,
            f"{row.value:.5g}",
            METRIC_UNITS.get(base_metric(row.metric)) or _COST_UNITS.get(row.metric) or "as the task defines it",
            "" if row.stderr is None else f"{row.stderr:.2g}",
            *(compared if self.original else ()),
            "" if row.num_fewshot is None else str(row.num_fewshot),
            str(row.n or ""),
        )

    @property
    def settings(self) -> dict[str, str]:
        """Return the data of the units with results, in words."""
        units = {row.unit for row in self.metrics}
        return {unit: text for unit in self.evaluation.units if unit in units and (text := self._measured_on(unit))}

    def _measured_on(self, unit: str) -> str:
        evaluation = self.evaluation
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
            chat_template_text(evaluation, self.has_template),
            f"completions of at most {task.max_gen_toks} tokens" if task.max_gen_toks else "",
            f"local data, {last_part(evaluation.data_folder)}" if evaluation.data_folder else "",
        )
        return ", ".join(filter(None, details))


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
    """Return a run's card with the results of a stored run of the same gates and those of the original model, and with
    decoding at its sparsity, which is timed with uniform targets alone."""
    timed = [
        row
        for row, point in ((row, row.record.point) for row in store.decode_rows() if not row.superseded)
        if (point.model, point.rotation, point.method) == (spec.model, spec.rotation, spec.method)
        and same_plan(store, spec, UniformSparsity(sparsity=point.sparsity))
        and (point.calibration == spec.calibration or not spec.method.needs_calibration)
    ]
    results = _results(store, measured) if measured else None
    return _model_card(spec, results, timed, command)


def _results(store: Store, run: RunSpec) -> CardResults | None:
    """Return the results of a stored run, None without any."""
    rows = store.metric_rows(MetricFilter(runs=(run.content_hash(),)))
    summary = store.model_summary(run.model)
    has_template = summary is not None and summary.chat_template
    return CardResults(rows, original_rows(store, run, rows), run.evaluation, has_template) if rows else None


def _model_card(
    spec: RunSpec, results: CardResults | None, timings: Sequence[DecodeRow], command: Sequence[str]
) -> str:
    """Return the card, Markdown with a YAML head; texts of users are data, and paths lose their folders."""
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
        base_model_json=json.dumps(base_model, ensure_ascii=False),
        main_results=_main_results(results.metrics if results else ()),
        facts=facts,
        results=results,
        timings=timings,
        command=shlex.join(command).replace("`", "'"),  # which would end the block of code
        command_notes=export_command_notes(spec),
    )


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
