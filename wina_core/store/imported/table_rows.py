"""Imported points as rows of a table, each with its file and date."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from wina_core.records.imports import StoredImport
from wina_core.store.imported.metrics import METRICS

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
    """Return the day of the measurement, or of the import where the file states none."""
    return datetime.fromtimestamp(stored.date, UTC).date().isoformat()


def _rows(stored: StoredImport, metrics: Sequence[str]) -> Iterable[list[Any]]:
    content = stored.content
    for point in content.points:
        settings = ", ".join(f"{name} {value}" for name, value in point.settings.items())
        fixed = [stored.id or None, point.name, stored.model, content.tool, content.version, point.hardware, settings]
        fixed += [content.file, date_text(stored), "measurement" if stored.is_dated else "import", True]
        values = (point.metrics.get(name) for name in metrics)
        yield [*fixed, *(None if value is None else value.value for value in values)]
