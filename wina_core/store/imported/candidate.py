"""A file that may be imported: read and checked against a model, not stored yet."""

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from wina_core.errors import WinaError
from wina_core.model_info.cost.describe import check_source
from wina_core.model_info.resolve import resolve
from wina_core.records import ModelSummary
from wina_core.records.imports import ImportedFile, ImportedPoint, StoredImport
from wina_core.specs import ModelSource
from wina_core.store.imported.read import read_import
from wina_core.store.reader import Reader
from wina_core.studies.run_labels import model_label


class Candidate(NamedTuple):
    """A file that can be stored."""

    file: ImportedFile
    model: ModelSource
    """The workbench's model, dense and as it is on disk now."""
    remarks: tuple[str, ...]
    """Sentences on what was left out or could not be checked."""

    @property
    def preview(self) -> StoredImport:
        """Return it as it would be stored now, without a number."""
        return StoredImport(
            id=0,
            content=self.file,
            model=model_label(self.model),
            location=self.model.location,
            model_hash=self.model.content_hash(),
            fingerprint=self.model.fingerprint,
            imported=time.time(),
        )


def read_candidates(store: Reader, paths: Sequence[Path], location: str) -> tuple[Candidate, ...]:
    """Return files as results on the model at this location; raise WinaError as `read_candidate`, and for a content
    that two of them share."""
    candidates = tuple(read_candidate(store, path, location) for path in paths)
    digests = [each.file.digest for each in candidates]
    for candidate in candidates:
        if digests.count(candidate.file.digest) > 1:
            raise WinaError(f"{candidate.file.file} is named twice, or two files have the same content; name it once.")
    return candidates


def read_candidate(store: Reader, path: Path, location: str) -> Candidate:
    """Return a file as results on the model at this location.

    Raises WinaError for a file that cannot be read, is stored already, or contradicts the model's size or name.
    """
    file, remarks = read_import(path)
    store.check_new_import(file)
    source, summary = check_source(resolve(ModelSource(location=location)))
    summary = summary or store.model_summary(source)
    check_model(file, model_label(source), summary)
    if summary is None:
        remarks += ("The model's size is unknown here, so only the names were compared; open the model once.",)
    elif not any(point.parameters for point in file.points):
        remarks += ("The file does not say how many weights the model has, so that could not be compared.",)
    return Candidate(file, source, remarks)


# Check that an imported file is about the model that the user names.

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
