"""A file that may be imported: read and checked against a model, not stored yet."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from wina_core.errors import WinaError
from wina_core.model_info.cost.describe import check_source
from wina_core.model_info.resolve import resolve
from wina_core.records.imports import ImportedFile, StoredImport
from wina_core.specs import ModelSource
from wina_core.store.imported.matching import check_model
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
