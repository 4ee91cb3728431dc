"""A report's tables beside the study's own: verdicts on timed decoding, and results of other tools."""

from collections.abc import Iterable

from wina_core.analysis.comparison.worth import WorthRow, worth_rows
from wina_core.records.imports import ImportedValue, StoredImport
from wina_core.report.layout import ABSENT
from wina_core.report.plain import Plain
from wina_core.specs import ModelSource, RunSpec
from wina_core.store import Store
from wina_core.store.imported.metrics import METRICS
from wina_core.store.imported.table_rows import date_text

_LARGE = 1e4


def worth_table(store: Store, runs: Iterable[RunSpec]) -> Plain | None:
    """Return the verdicts on the timed decoding of the runs' models, rotations and methods; None without any."""
    judged = {(_files(run.model), run.model.quantization, run.rotation, run.method) for run in runs}
    rows = [
        row
        for row in worth_rows(store.decode_rows(), store.decode_points(), store.imports())
        if (_files(row.point.model), row.point.model.quantization, row.point.rotation, row.point.method) in judged
    ]
    columns = (
        *("Model", "Weights", "Method", "Tokens/s", "Prompt tokens/s, vs dense", "Held MB", "Peak MB"),
        *("Pays up to batch", "Verdict", "Timed on"),
    )
    return Plain("Decoding of one sequence, on the machine named", columns, tuple(map(_judged, rows))) if rows else None


def _files(model: ModelSource) -> tuple[str, str]:
    return model.location, model.fingerprint


def _judged(row: WorthRow) -> tuple[str, ...]:
    timed = row.row
    prompt = f"{timed.prefill_tokens_per_second:.4g}" if timed.prefill_tokens_per_second else ABSENT
    if row.prefill is not None:
        prompt = f"{prompt}, {row.prefill.gain.text}"
    memory = (ABSENT if size is None else f"{size / 1e6:,.1f}" for size in (timed.held_bytes, timed.peak_bytes))
    speed = f"{timed.tokens_per_second:.4g}"
    return row.model, row.bits, row.configuration, speed, prompt, *memory, row.batches, row.verdict.text, timed.hardware


def imported_table(store: Store, models: Iterable[ModelSource]) -> Plain | None:
    """Return the imported points of the models, each with its file and date; None without any."""
    models = list(models)
    imports = [each for each in store.imports() if any(map(each.is_of, models))]
    rows = tuple(
        (stored.model, point.name, ", ".join(_number(*each) for each in point.metrics.items()), *_origin(stored))
        for stored in imports
        for point in stored.content.points
    )
    columns = ("Model", "Configuration", "Imported numbers", "Tool", "File", "Date")
    return Plain("Imported, not measured here, and in no other table", columns, rows) if rows else None


def _number(name: str, number: ImportedValue) -> str:
    """Return for example "kl 0.01748 ± 0.00076 nats per token"."""
    shown = f"{number.value:,.0f}" if abs(number.value) >= _LARGE else f"{number.value:.4g}"
    error = "" if number.stderr is None else f" ± {number.stderr:.2g}"
    metric = METRICS.get(name)
    return f"{name} {shown}{error}" if metric is None else f"{metric.column} {shown}{error} {metric.unit}"


def _origin(stored: StoredImport) -> tuple[str, str, str]:
    content = stored.content
    date = date_text(stored) + ("" if stored.is_dated else " (import)")
    return f"{content.tool} {content.version}".strip(), content.file, date
