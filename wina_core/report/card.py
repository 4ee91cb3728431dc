"""The export of a sparse model with its model card, made from its stored run."""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from wina_core.engine.protocol import ExportModelJob
from wina_core.errors import WinaError
from wina_core.files.paths import check_unused
from wina_core.results.rows import MetricRow
from wina_core.sources.names import last_part
from wina_core.specs import COST, DENSE, FIDELITY, ORIGINAL, RunSpec, quantization_label
from wina_core.specs.quantization import printed_quantization
from wina_core.store import Store
from wina_core.store.rows import DecodeRow, MetricFilter

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@]|:(?=//)|(?<=www)\.)", re.IGNORECASE)
"""Characters that Markdown reads, those of links without brackets included."""
_HASH = 12
"""Characters of a run's hash in a command."""
_ORDER = {ORIGINAL: 0, FIDELITY: 1, COST: 3}
_USE = """\
```python
import wina_core.hf  # of the package wina-workbench
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER")
```

Decoding reads only the weights of the inputs that matter for each token. Without `import wina_core.hf`, transformers
warns of an unknown quantization type, and what it loads is not this model.
"""


def export_job(store: Store, spec: RunSpec, folder: Path, command: Sequence[str] = ()) -> ExportModelJob:
    """Return the job that writes a run's gated model to a folder, with its card.

    Its command is the given one, or the one that exports the same by the run's hash if the run is stored. Raises
    WinaError for a dense run and a folder in use.
    """
    check_unused(folder)
    if spec.method.name == DENSE.name:
        raise WinaError("The dense model drops nothing, so there is no sparse model; choose a run with a method.")
    run = spec.content_hash()
    known = store.run_spec(run) is not None
    if known and not command:
        command = ("wina", "export-model", folder.name, "--run", run[:_HASH])
    card = stored_card(store, spec, command)
    return ExportModelJob(spec=spec, folder=str(folder.absolute()), card=card, run=run if known else "")


def stored_card(store: Store, spec: RunSpec, command: Sequence[str]) -> str:
    """Return the card of a run with all that the store has measured of it: metrics, and decoding at its sparsity."""
    metrics = store.metric_rows(MetricFilter(runs=(spec.content_hash(),)))
    points = {
        name
        for name, point in store.decode_points().items()
        if (point.model, point.configuration.rotation, point.configuration.method, point.sparsity)
        == (spec.model, spec.rotation, spec.method, spec.plan.budget)
    }
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
        *(f"- {name}: {_text(value)}" for name, value in facts.items()),
        "",
        _USE,
        "## Measured",
        "",
    ]
    if metrics:
        lines += ["| task | metric | value | standard error | n |", "| --- | --- | --- | --- | --- |"]
        lines += [_row(row) for row in sorted(metrics, key=lambda row: _ORDER.get(row.task, 2))]
    else:
        lines.append("Nothing was measured for this configuration.")
    for row in timings:
        lines += [
            "",
            f"Decoding {row.batch} at once on {_text(row.hardware)}: {row.tokens_per_second:.1f} tokens/s, "
            f"{row.speedup:.2f} times the dense model's.",
        ]
    if command:
        made_by = _line(shlex.join(map(_without_folders, command))).replace("`", "'")
        lines += ["", "## Made by", "", "```", made_by, "```"]
    return "\n".join([*lines, ""])


def _without_folders(word: str) -> str:
    """Return a word of a command, or the value of its option, as the last part of a path."""
    option, sign, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + sign + last_part(value)


def _row(row: MetricRow) -> str:
    error = "" if row.stderr is None else f"{row.stderr:.2g}"
    return f"| {_text(row.task)} | {_text(row.metric)} | {row.value:.5g} | {error} | {row.n or ''} |"


def _text(value: str) -> str:
    """Return a text as one line without Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", _line(value))


def _line(value: str) -> str:
    """Return a text as one line of printable characters."""
    return " ".join("".join(each if each.isprintable() else " " for each in value).split())
