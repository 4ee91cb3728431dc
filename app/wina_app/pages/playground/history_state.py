"""Texts about stored completions."""

from wina_app.pages.playground.form_state import SHORT, shortened
from wina_app.style.translation import tr
from wina_core.records.completions import CompletionRecord, CompletionRow, StoredCompletion
from wina_core.records.texts import moment
from wina_core.studies.run_labels import model_label

_DAY, _MINUTES = len("2026-"), len("2026-01-01 00:00")


def title(row: CompletionRow) -> str:
    """Return the first words of a prompt."""
    return shortened(row.prompt, 2 * SHORT)


def details(row: CompletionRow) -> str:
    """Return time, configuration, length and speed-up of a completion."""
    texts = [moment(row.recorded)[_DAY:_MINUTES], row.configuration, tr("{n} tokens", "{n} token", row.tokens)]
    if row.speedup is not None:
        texts.append(f"{row.speedup:.2f} \N{MULTIPLICATION SIGN}")
    return " \N{MIDDLE DOT} ".join(texts)


def facts(stored: StoredCompletion) -> str:
    """Return what a completion was made with."""
    record = stored.record
    texts = [moment(stored.recorded), model_label(record.point.model), *_sampling(record)]
    if record.environment is not None:
        texts.append(record.environment.hardware)
    return " \N{MIDDLE DOT} ".join(texts)


def _sampling(record: CompletionRecord) -> list[str]:
    point = record.point
    texts = [tr("chat template")] if point.chat else []
    if point.sampling.temperature:
        texts.append(tr("temperature {value}", value=f"{point.sampling.temperature:g}"))
        texts.append(tr("top-p {value}", value=f"{point.sampling.top_p:g}"))
        texts.append(tr("seed {value}", value=point.sampling.seed))
    return texts
