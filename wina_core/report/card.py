"""The export of a sparse model with its model card, made from its stored run."""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from wina_core.errors import WinaError
from wina_core.files.paths import check_new_folder
from wina_core.jobs import ExportModelJob
from wina_core.model_info.model_checks import read_config
from wina_core.model_info.names import last_part
from wina_core.model_info.resolve import files_of
from wina_core.records import METRIC_UNITS
from wina_core.report.export_command import command_notes, export_command
from wina_core.report.measured_on import Results
from wina_core.report.sparse_runs import measured_run, same_plan
from wina_core.specs import COST, DENSE, FIDELITY, ORIGINAL, ModelSource, RunSpec, quantization_label
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.quantization import printed_quantization
from wina_core.store import Store
from wina_core.store.metric_rows import MetricRow
from wina_core.store.rows import DecodeRow
from wina_core.studies.published import base_metric

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@]|:(?=//)|(?<=www)\.)", re.IGNORECASE)
"""Characters that Markdown reads, those of links without brackets included."""
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
_USE = """\
```python
import wina_core.hf  # of the package wina-workbench
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER")
```

Decoding reads only the weights of the inputs that matter for each token. Without `import wina_core.hf`, transformers
refuses the folder and names what is missing.
"""


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
    points = {
        name
        for name, point in store.decode_points().items()
        if (point.model, point.rotation, point.method) == (spec.model, spec.rotation, spec.method)
        and same_plan(store, spec, UniformSparsity(sparsity=point.sparsity))
        and (point.calibration == spec.calibration or not spec.method.needs_calibration)
    }
    results = Results.read(store, measured) if measured else None
    return model_card(spec, results, store.decode_rows(points=points) if points else [], command)


def model_card(spec: RunSpec, results: Results | None, timings: Sequence[DecodeRow], command: Sequence[str]) -> str:
    """Return the card, Markdown with a YAML head; texts of users are data, and paths lose their folders."""
    base, budget = _line(last_part(spec.model.location)), 100 * spec.plan.budget
    metrics = results.metrics if results else ()
    facts = {
        "Method": f"{spec.method.label}, {spec.method.selection} selection, {spec.method.masks} masks",
        "Target sparsity": f"{budget:.4g} % of the gated weights, {spec.plan.provenance}",
        "Rotation": spec.rotation.label,
        "Weights": ", ".join(filter(None, (_dtype(spec.model), _bits(spec.model)))),
        "Dense prefix": f"{100 * spec.evaluation.dense_prefix:.4g} % of a prompt",
    }
    if spec.method.needs_calibration and spec.calibration:
        facts["Calibration"] = f"{spec.calibration.text.label}, {spec.calibration.thresholds} thresholds"
    lines = [
        "---",
        "library_name: transformers",
        f"base_model: {json.dumps(base, ensure_ascii=False)}",
        "tags: [wina, activation-sparsity]",
        "---",
        "",
        f"# {_text(base)}, gated",
        "",
        *(f"- {name}: {value}" for name, value in _main_results(metrics).items()),
        *(() if timings else ("- Speed: not measured (`wina latency`)",)),
        *(f"- {name}: {_text(value)}" for name, value in facts.items()),
        "",
        _USE,
        "## Measured",
        "",
        *(_measured(results) if results and metrics else ("No stored results were found for it.",)),
    ]
    for row in timings:
        lines += [
            "",
            f"Decoding {row.batch} at once on {_text(row.hardware)}: {row.tokens_per_second:.1f} tokens/s, "
            f"{row.speedup:.2f} times the dense model's.",
        ]
    if command:
        made_by = _line(shlex.join(command)).replace("`", "'")
        lines += ["", "## Made by", "", "```", made_by, "```"]
        lines += ["", " ".join(map(_text, notes))] if (notes := command_notes(spec)) else []
    return "\n".join([*lines, ""])


def _dtype(source: ModelSource) -> str:
    """Return the data type of a model's weights, where it is chosen or its config.json names it."""
    if source.dtype != "auto":
        return source.dtype
    try:
        config = read_config(files_of(source))
    except WinaError:  # the export reports it
        return ""
    return str(config.get("dtype") or config.get("torch_dtype") or "")


def _bits(source: ModelSource) -> str:
    return printed_quantization(quantization_label(source.quantization)) or "not quantized"


def _main_results(metrics: Sequence[MetricRow]) -> dict[str, str]:
    """Return the results that matter most, those that were measured."""
    found = {(row.task, row.metric): row.value for row in metrics}
    gated = next((row.gated_sparsity for row in metrics if row.gated_sparsity is not None), None)
    shown = (
        ("Measured sparsity", gated, 100.0, "% of the gated weights"),
        ("KL divergence from the original model", found.get((ORIGINAL, "kl")), 1.0, "nats per token"),
        ("Same top token as the original model", found.get((ORIGINAL, "top1_agreement")), 100.0, "% of tokens"),
        ("Bytes read per token", found.get((COST, "net_bytes")), 1e-6, "MB"),
    )
    return {name: f"{value * scale:.4g} {unit}" for name, value, scale, unit in shown if value is not None}


def _measured(results: Results) -> list[str]:
    """Return the table of the results, and what they were measured on."""
    rows = sorted(results.metrics, key=lambda row: _ORDER.get(row.task, 2))
    beside = ("original model", "difference") if results.original else ()
    titles = ("task", "metric", "value", "unit", "standard error", *beside, "few-shot", "n")
    lines = [f"| {' | '.join(titles)} |", f"| {' | '.join('---' for _ in titles)} |"]
    lines += [f"| {' | '.join(_cells(row, results))} |" for row in rows]
    settings = [f"- {_text(name)}: {_text(value)}" for name, value in results.settings.items()]
    if results.has_tasks and not results.original:
        settings.append("- The original model's results on the tasks are not stored.")
    warnings = dict.fromkeys(row.warning for row in rows if row.warning)
    return [
        *lines,
        "",
        *settings,
        "- n: documents of tasks, tokens of texts",
        *(f"- {_text(each)}" for each in warnings),
    ]


def _cells(row: MetricRow, results: Results) -> tuple[str, ...]:
    original = results.original.get((row.task, row.metric))
    beside = (f"{original.value:.5g}", f"{row.value - original.value:+.5g}") if original else ("", "")
    return (
        _text(row.task),
        _text(row.metric),
        f"{row.value:.5g}",
        METRIC_UNITS.get(base_metric(row.metric)) or _COST_UNITS.get(row.metric) or "as the task defines it",
        "" if row.stderr is None else f"{row.stderr:.2g}",
        *(beside if results.original else ()),
        "" if row.num_fewshot is None else str(row.num_fewshot),
        str(row.n or ""),
    )


def _text(value: str) -> str:
    """Return a text as one line without Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", _line(value))


def _line(value: str) -> str:
    """Return a text as one line of printable characters."""
    return " ".join("".join(each if each.isprintable() else " " for each in value).split())
