"""The export of a sparse model with its model card, made from its stored run."""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from wina_core.engine.protocol import ExportModelJob
from wina_core.errors import WinaError
from wina_core.files.paths import check_new_folder
from wina_core.records import METRIC_UNITS
from wina_core.report.sparse_runs import export_command, measured_run, same_plan
from wina_core.results.rows import MetricRow
from wina_core.sources.names import last_part
from wina_core.specs import COST, DENSE, FIDELITY, ORIGINAL, RunSpec, quantization_label
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.quantization import printed_quantization
from wina_core.store import Store
from wina_core.store.rows import DecodeRow, MetricFilter
from wina_core.studies.published import base_metric

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@]|:(?=//)|(?<=www)\.)", re.IGNORECASE)
"""Characters that Markdown reads, those of links without brackets included."""
_COST_UNITS = {
    "net_bytes": "bytes",
    "bytes_held": "bytes",
    "net_flops": "FLOP",
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
    run = spec.content_hash() if measured is None else measured.content_hash()
    known = run if measured is not None or store.run_spec(run) is not None else ""
    card = stored_card(store, spec, known, export_command(spec, known, folder.name))
    return ExportModelJob(spec=spec, folder=str(folder.absolute()), card=card, run=known)


def stored_card(store: Store, spec: RunSpec, run: str, command: Sequence[str]) -> str:
    """Return a run's card with the metrics of the stored run with this hash, and with decoding at its sparsity, which
    is timed with uniform targets alone."""
    points = {
        name
        for name, point in store.decode_points().items()
        if (point.model, point.rotation, point.method) == (spec.model, spec.rotation, spec.method)
        and same_plan(store, spec, UniformSparsity(sparsity=point.sparsity))
        and (point.calibration == spec.calibration or not spec.method.needs_calibration)
    }
    metrics = store.metric_rows(MetricFilter(runs=(run,))) if run else []
    return model_card(spec, metrics, store.decode_rows(points=points) if points else [], command)


def model_card(
    spec: RunSpec, metrics: Sequence[MetricRow], timings: Sequence[DecodeRow], command: Sequence[str]
) -> str:
    """Return the card, Markdown with a YAML head; texts of users are data, and paths lose their folders."""
    base, budget = _line(last_part(spec.model.location)), 100 * spec.plan.budget
    facts = {
        "Method": f"{spec.method.label}, {spec.method.selection} selection, {spec.method.masks} masks",
        "Target sparsity": f"{budget:.4g} % of the gated weights, {spec.plan.provenance}",
        "Rotation": spec.rotation.label,
        "Weights": printed_quantization(quantization_label(spec.model.quantization)) or "not quantized",
        "Dense prefix": f"{100 * spec.evaluation.dense_prefix:.4g} % of a prompt",
    }
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
        *(f"- {name}: {_text(value)}" for name, value in facts.items()),
        "",
        _USE,
        "## Measured",
        "",
    ]
    if metrics:
        lines += ["| task | metric | value | unit | standard error | n |", "| --- | --- | --- | --- | --- | --- |"]
        lines += [_row(row) for row in sorted(metrics, key=lambda row: _ORDER.get(row.task, 2))]
    else:
        lines.append("No stored results were found for it.")
    for row in timings:
        lines += [
            "",
            f"Decoding {row.batch} at once on {_text(row.hardware)}: {row.tokens_per_second:.1f} tokens/s, "
            f"{row.speedup:.2f} times the dense model's.",
        ]
    if command:
        made_by = _line(shlex.join(command)).replace("`", "'")
        lines += ["", "## Made by", "", "```", made_by, "```"]
    return "\n".join([*lines, ""])


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


def _row(row: MetricRow) -> str:
    error = "" if row.stderr is None else f"{row.stderr:.2g}"
    unit = METRIC_UNITS.get(base_metric(row.metric), _COST_UNITS.get(row.metric, ""))
    return f"| {_text(row.task)} | {_text(row.metric)} | {row.value:.5g} | {unit} | {error} | {row.n or ''} |"


def _text(value: str) -> str:
    """Return a text as one line without Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", _line(value))


def _line(value: str) -> str:
    """Return a text as one line of printable characters."""
    return " ".join("".join(each if each.isprintable() else " " for each in value).split())
