"""Columns of the tables as derived from specs and records: lists filter by them."""

import hashlib
import json
from typing import Any

from wina_core.model_info.text_files import share_rows
from wina_core.records import Environment, MetricRecord
from wina_core.specs import (
    AllocatedSparsity,
    CalibrationSpec,
    Configuration,
    EvaluationSpec,
    ModelSource,
    QuantizationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.studies.run_labels import model_label


def model_columns(source: ModelSource) -> dict[str, Any]:
    """Return the columns of `tables.ModelTable` that follow from the spec."""
    return {
        "hash": source.content_hash(),
        "label": model_label(source),
        "location": source.location,
        "spec": source.model_dump_json(),
    }


def run_columns(run: RunSpec) -> dict[str, Any]:
    """Return the columns of `tables.RunTable` that follow from the spec."""
    return {
        "hash": run.content_hash(),
        "spec": run.model_dump_json(),
        "rotation_label": run.rotation.label,
        "method_label": run.method.label,
        "configuration_label": Configuration(rotation=run.rotation, method=run.method).label,
        "selection": run.method.selection,
        "plan_provenance": run.plan.provenance,
        "target_sparsity": run.plan.budget,
        "settings": settings_label(run),
        "chosen_on_evaluation": chosen_on_evaluation(run),
        "seed": run.evaluation.seed,
        "unit_count": len(run.evaluation.units),
    }


def settings_label(run: RunSpec) -> str:
    """Return the evaluation and calibration settings that differ from the defaults, for example "limit 100, 5-shot".

    Tasks are left out: every metric names its own.
    """
    evaluation, default = run.evaluation, EvaluationSpec()
    words = []
    if evaluation.limit is not None:
        words.append(f"limit {evaluation.limit}")
    if evaluation.num_fewshot is not None:
        words.append(f"{evaluation.num_fewshot}-shot")
    if evaluation.chat_template:
        words.append("chat template")
    if evaluation.dense_prefix != default.dense_prefix:
        words.append(f"first {100 * evaluation.dense_prefix:g} % dense")
    if evaluation.seed != default.seed:
        words.append(f"seed {evaluation.seed}")
    if evaluation.batch_size != default.batch_size:
        auto = evaluation.batch_size == "auto"
        words.append("batches as memory allows" if auto else f"batches of {evaluation.batch_size}")
    if evaluation.task_folders:
        words.append(f"tasks from {' and '.join(evaluation.task_folders)}")
    if evaluation.data_folder is not None:
        words.append(f"data from {evaluation.data_folder}")
    if run.calibration is not None:
        usual = CalibrationSpec()
        if run.calibration.text != usual.text:
            words.append(f"calibrated on {run.calibration.text.label}")
        if run.calibration.thresholds != usual.thresholds:
            words.append(f"{run.calibration.thresholds} thresholds")
    if evaluation.synthetic is not None:
        words.append(evaluation.synthetic.label)
    words += [f"fidelity on {text.label}" for text in evaluation.texts if text != default.fidelity]
    return ", ".join(words)


def chosen_on_evaluation(run: RunSpec) -> str:
    """Return those of rotation, quantization, allocator and calibration that read an evaluated text; empty for none.

    For example "rotation and calibration". The text behind a table of targets is unknown.
    """
    texts = run.evaluation.texts
    if run.method.name == "dense":  # without gates, only a quantized model depends on its rotation
        texts = texts if run.evaluation.original and run.model.quantization != "none" else ()
    read: dict[str, TextSpec] = {}
    if run.rotation.reads_text:
        read["rotation"] = run.rotation.text
    if isinstance(run.model.quantization, QuantizationSpec) and run.model.quantization.reads_text:
        read["quantization"] = run.model.quantization.text
    if isinstance(run.plan, AllocatedSparsity) and run.plan.allocator.name != "uniform":
        read["allocator"] = run.plan.allocator.text
    if run.calibration is not None:
        read["calibration"] = run.calibration.text
    return " and ".join(name for name, other in read.items() if any(_is_seen(other, text) for text in texts))


def _is_seen(read: TextSpec, evaluated: TextSpec) -> bool:
    return read.fingerprint == evaluated.fingerprint and share_rows(read.source, evaluated.source)


def environment_of(row: Any) -> Environment:
    return Environment(device=row.device, hardware=row.hardware, versions=json.loads(row.versions))


def measure_columns(metric: MetricRecord) -> dict[str, Any]:
    """Return the columns of `tables.MeasureTable`: a metric without its numbers, and a digest of 16 hex digits."""
    measure = metric.model_dump(exclude={"value", "stderr"})
    return measure | {"hash": hashlib.sha256(json.dumps(measure, sort_keys=True).encode()).hexdigest()[:16]}
