"""Check that an imported file is about the model that the user names."""

import re

from wina_core.errors import WinaError
from wina_core.records import ModelSummary
from wina_core.records.imports import ImportedFile, ImportedPoint

_GGUF = {
    "llama": ("llama",),
    "mistral": ("llama", "mistral3"),
    "gemma3_text": ("gemma3",),
    "gpt_neox": ("gptneox",),
    "phi": ("phi2",),
}
"""llama.cpp's names of architectures, where they differ from transformers' `model_type`."""
_TOLERANCE = 0.01
"""Relative difference of two counts of one model: tools round to three digits, and some count tables of positions."""
_SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)\s?([bm])(?![a-z0-9])", re.IGNORECASE)
"""A size in a model's name, as 7B or 360M."""


def check_model(file: ImportedFile, model: str, summary: ModelSummary | None) -> None:
    """Raise WinaError if a point's number of weights, architecture or name contradicts the model called `model`.

    Without a summary only the names are compared.
    """
    for point in file.points:
        reason = _architecture(point, summary) or _parameters(point, summary) or _name(point, model)
        if reason:
            raise WinaError(
                f'{file.file} is not about the model "{model}": {reason}; choose the model that it was measured on.'
            )


def _architecture(point: ImportedPoint, summary: ModelSummary | None) -> str:
    if summary is None or not point.architecture:
        return ""
    own = _GGUF.get(summary.family, (summary.family,))
    return (
        "" if point.architecture in own else f'{point.name} has the architecture "{point.architecture}", not "{own[0]}"'
    )


def _parameters(point: ImportedPoint, summary: ModelSummary | None) -> str:
    """Return the contradiction; the head may be counted apart from the embedding that it is tied to, or not."""
    if summary is None or point.parameters is None:
        return ""
    head = summary.vocabulary * summary.hidden_size
    counts = [summary.parameters, summary.parameters + head if summary.tied_embeddings else summary.parameters - head]
    if any(abs(point.parameters - count) <= _TOLERANCE * count for count in counts):
        return ""
    return f"{point.name} has {point.parameters:,.0f} weights, not {summary.parameters:,}"


def _name(point: ImportedPoint, model: str) -> str:
    """Return the contradiction of the sizes in both names; empty where one names none."""
    stated, own = _size(point.model), _size(model)
    if not stated or not own or stated == own:
        return ""
    return f'its model is called "{point.model}"'


def _size(name: str) -> float | None:
    found = _SIZE.search(name.replace("_", "-"))
    return float(found[1]) * (1000 if found[2] in "bB" else 1) if found else None
