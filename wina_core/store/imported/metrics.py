"""Metrics of imported points: names, units, the values that are possible, and points as rows of a table."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from wina_core.errors import WinaError
from wina_core.records.imports import ImportedValue, StoredImport


class Metric(NamedTuple):
    """A metric that an import may have."""

    column: str
    """Name of its column in a CSV file."""
    unit: str
    meaning: str
    least: float = 0.0
    most: float = math.inf


METRICS: dict[str, Metric] = {
    "kl": Metric("kl", "nats per token", "mean KL divergence from the original model", -0.01),
    "top1_agreement": Metric("same_top", "fraction", "tokens with the same most likely next token", 0.0, 1.0),
    "tokens_per_s": Metric("tokens_per_s", "tokens/s", "decoding speed of one sequence"),
    "prefill_tokens_per_s": Metric("prefill_tokens_per_s", "tokens/s", "speed of reading a prompt"),
    "bits": Metric("bits", "bits per weight", "bits held per weight, scales included", 0.0, 64.0),
    "memory": Metric("memory", "bytes", "bytes held by the weights"),
    "bytes_read": Metric("bytes_read", "bytes per token", "bytes read for a generated token"),
    "perplexity": Metric("ppl", "per token", "perplexity", 1.0),
    "perplexity_ratio": Metric("ppl_ratio", "ratio", "perplexity over that of the original model"),
    "kl_median": Metric("kl_median", "nats per token", "median KL divergence over tokens", -0.01),
    "kl_p90": Metric("kl_p90", "nats per token", "90th percentile of the KL divergence", -0.01),
    "kl_p99": Metric("kl_p99", "nats per token", "99th percentile of the KL divergence", -0.01),
    "kl_p99_9": Metric("kl_p99_9", "nats per token", "99.9th percentile of the KL divergence", -0.01),
    "kl_max": Metric("kl_max", "nats per token", "largest KL divergence", -0.01),
    "delta_p": Metric("delta_p", "probability", "mean change of the correct token's probability", -1.0, 1.0),
    "delta_p_rms": Metric("delta_p_rms", "probability", "root mean square of that change", 0.0, 1.0),
    "perplexity_original": Metric("ppl_original", "per token", "perplexity of the original model", 1.0),
}
"""By name, those of METRIC_UNITS for metrics that the workbench measures, too. llama.cpp's KL divergences may
fall slightly below zero, since it keeps the original's logits in 16 bits."""


def checked(name: str, value: float, stderr: float | None, where: str) -> ImportedValue:
    """Return a metric's value; raise WinaError, whose text begins with `where`, for an impossible one."""
    metric = METRICS[name]
    if not math.isfinite(value):
        raise WinaError(f"{where}: {metric.column} is {value}, which is no number; leave the cell or the row out.")
    if not metric.least <= value <= metric.most:
        bounds = f"at least {metric.least:g}" if metric.most == math.inf else f"{metric.least:g} to {metric.most:g}"
        raise WinaError(f"{where}: {metric.column} is {value:g}, but it must be {bounds} ({metric.unit}).")
    is_known = stderr is not None and math.isfinite(stderr) and stderr >= 0
    return ImportedValue(value=value, stderr=stderr if is_known else None)


# ---- imported points as rows of a table, each with its file and date -------------------------------------------------


FIXED = ("import", "name", "model", "tool", "version", "hardware", "settings", "file", "date", "date of", "imported")
"""Columns before those of the metrics. "date of" says whether the date is the measurement's or the import's."""


def import_rows(imports: Iterable[StoredImport]) -> tuple[list[str], list[list[Any]]]:
    """Return the columns, and a row for each point with None where it lacks a metric.

    "imported" is true in all rows: it marks them where they are joined with measured ones.
    """
    imports = list(imports)
    present = {name for stored in imports for point in stored.content.points for name in point.metrics}
    metrics = [*(name for name in METRICS if name in present), *sorted(present - METRICS.keys())]
    columns = [*FIXED, *(METRICS[name].column if name in METRICS else name for name in metrics)]
    return columns, [row for stored in imports for row in _rows(stored, metrics)]


def date_text(stored: StoredImport) -> str:
    """Return the day of the measurement, or of the import if the file states none, in ISO 8601."""
    return datetime.fromtimestamp(stored.date, UTC).date().isoformat()


def _rows(stored: StoredImport, metrics: Sequence[str]) -> Iterable[list[Any]]:
    content = stored.content
    for point in content.points:
        settings = ", ".join(f"{name} {value}" for name, value in point.settings.items())
        fixed = [stored.id or None, point.name, stored.model, content.tool, content.version, point.hardware, settings]
        fixed += [content.file, date_text(stored), "measurement" if stored.is_dated else "import", True]
        values = (point.metrics.get(name) for name in metrics)
        yield [*fixed, *(None if value is None else value.value for value in values)]
