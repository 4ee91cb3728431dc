"""Remarks on models whose weights come from GGUF files."""

from collections.abc import Mapping

from wina_core.errors import WinaError
from wina_core.model_info.gguf_header import read_gguf_header
from wina_core.model_info.names import last_part
from wina_core.model_info.resolve import fingerprint, gguf_file
from wina_core.records import ModelSummary
from wina_core.specs import ModelSource


def gguf_remarks(summaries: Mapping[ModelSource, ModelSummary | None]) -> tuple[str, ...]:
    """Return how GGUF files held the weights of some models with their stored summaries, a text for each file."""
    texts = {
        f"{last_part(model.location)}: {remark}"
        for model, summary in summaries.items()
        if (remark := _remark(model, summary))
    }
    return tuple(sorted(texts))


def _remark(model: ModelSource, summary: ModelSummary | None) -> str:
    """Return the remark of a model's file, or of its summary where the file is elsewhere; empty for other models."""
    try:
        file = gguf_file(model)
        if file is not None and fingerprint(file) == model.fingerprint:
            return read_gguf_header(file).remark
    except WinaError:  # it lies on another machine, or no longer here
        pass
    remarks = () if summary is None else summary.remarks
    return next((remark for remark in remarks if "GGUF file" in remark), "")
