"""The model card of an exported sparse model, made from its stored run."""

import json
import re
import shlex
from collections.abc import Sequence

from wina_core.results.rows import MetricRow
from wina_core.sources.names import last_part
from wina_core.specs import COST, FIDELITY, ORIGINAL, RunSpec, quantization_label
from wina_core.store import Store
from wina_core.store.rows import DecodeRow, MetricFilter

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~])")
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
    base, budget = last_part(spec.model.location), 100 * spec.plan.budget
    facts = {
        "Method": f"{spec.method.label}, {spec.method.selection} selection, {spec.method.masks} masks",
        "Target sparsity": f"{budget:.4g} % of the gated weights, {spec.plan.provenance}",
        "Rotation": spec.rotation.label,
        "Weights": quantization_label(spec.model.quantization),
        "Dense prefix": f"{100 * spec.evaluation.dense_prefix:.4g} % of a prompt",
    }
    lines = [
        "---",
        "library_name: transformers",
        f"base_model: {json.dumps(base)}",
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
    made_by = shlex.join(map(last_part, command)).replace("`", "'")
    return "\n".join([*lines, "", "## Made by", "", "```", " ".join(made_by.split()), "```", ""])


def _row(row: MetricRow) -> str:
    error = "" if row.stderr is None else f"{row.stderr:.2g}"
    return f"| {_text(row.task)} | {_text(row.metric)} | {row.value:.5g} | {error} | {row.n or ''} |"


def _text(value: str) -> str:
    """Return a text as one line without Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", " ".join(value.split()))
