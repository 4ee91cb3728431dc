"""A file that may be imported: read and checked against a model, not stored yet."""

import csv
import hashlib
import io
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from wina_core.errors import WinaError, explain
from wina_core.files.user_file import read_file
from wina_core.model_info.cost.describe import ModelFacts, check_source
from wina_core.model_info.resolve import resolve
from wina_core.records import ModelSummary
from wina_core.records.imports import EARLIEST, LATEST, ImportedFile, ImportedPoint, Parsed, StoredImport
from wina_core.specs import ModelSource
from wina_core.store.imported import llama_cpp, lm_eval, named_columns
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
    """Return files as results on the model at this location. Raises WinaError as `read_candidate`, and if two files
    have the same content."""
    candidates = tuple(read_candidate(store, path, location) for path in paths)
    digests = [candidate.file.digest for candidate in candidates]
    for candidate in candidates:
        if digests.count(candidate.file.digest) > 1:
            raise WinaError(f"{candidate.file.file} is named twice, or two files have the same content; name it once.")
    return candidates


def read_candidate(store: Reader, path: Path, location: str) -> Candidate:
    """Return a file as results on the model at this location.

    Raises WinaError for a file that cannot be read, is stored already, or contradicts the model's size.
    """
    file, remarks = read_import(path)
    store.check_new_import(file)
    source, facts = check_source(resolve(ModelSource(location=location)))
    summary = facts or store.model_summary(source)
    check_model(file, model_label(source), summary)
    if summary is None:
        remarks += ("The model's size is unknown here, so it could not be compared; open the model once.",)
    elif not any(point.parameters for point in file.points):
        remarks += ("The file does not say how many weights the model has, so that could not be compared.",)
    return Candidate(file, source, remarks)


# ---- check against the model -----------------------------------------------------------------------------------------

_GGUF = {
    "llama": ("llama",),
    "mistral": ("llama", "mistral3"),
    "gemma3_text": ("gemma3",),
    "gpt_neox": ("gptneox",),
    "phi": ("phi2",),
}
"""llama.cpp's names of architectures that differ from transformers' `model_type`."""
_TOLERANCE = 0.01
"""Relative difference of two counts of one model: tools round to three digits, and some count tables of positions."""


def check_model(file: ImportedFile, model: str, summary: ModelSummary | ModelFacts | None) -> None:
    """Raise WinaError if a point's number of weights or architecture contradicts the model called `model`.

    Without a summary nothing is compared.
    """
    if summary is None:
        return
    for point in file.points:
        if reason := _architecture(point, summary) or _parameters(point, summary):
            raise WinaError(
                f'{file.file} is not about the model "{model}": {reason}; choose the model that it was measured on.'
            )


def _architecture(point: ImportedPoint, summary: ModelSummary | ModelFacts) -> str:
    names = _GGUF.get(summary.family, (summary.family,))
    if not point.architecture or point.architecture in names:
        return ""
    return f'{point.name} has the architecture "{point.architecture}", not "{names[0]}"'


def _parameters(point: ImportedPoint, summary: ModelSummary | ModelFacts) -> str:
    # Tools differ in whether they count a head apart from the embedding to which it is tied.
    head = summary.vocabulary * summary.hidden_size
    counts = [summary.parameters, summary.parameters + head if summary.tied_embeddings else summary.parameters - head]
    if point.parameters is None or any(abs(point.parameters - count) <= _TOLERANCE * count for count in counts):
        return ""
    return f"{point.name} has {point.parameters:,.0f} weights, not {summary.parameters:,}"


# ---- reading: the kind of a file is recognized by its content --------------------------------------------------------

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks, as PowerShell writes redirected output."""
KINDS = "llama-bench's JSON, JSONL or CSV, llama-perplexity's log with --kl-divergence, lm-eval's JSON, or a CSV table"
MOST_POINTS = 10_000
MOST_METRICS = 2_000
"""Points and different metrics of one file; each metric is a column of tables."""
_UNREADABLE = (ValueError, OverflowError, TypeError, csv.Error)
"""Errors of Python's readers of numbers, dates and tables for content that no tool writes."""


def read_import(path: Path) -> tuple[ImportedFile, tuple[str, ...]]:
    """Return the content of a file and sentences on what was left out.

    Raises WinaError, which names the file, for one that is unreadable, too large or of another kind, and for missing
    columns and impossible numbers.
    """
    content = read_file(path, "file of results")
    try:
        parsed = parse(_text(content), path.name)
        if len(parsed.points) > MOST_POINTS:
            raise WinaError(f"it has {len(parsed.points):,} points, more than {MOST_POINTS:,}; split it.")
        metrics = len({name for point in parsed.points for name in point.metrics})
        if metrics > MOST_METRICS:
            raise WinaError(f"it has {metrics:,} different metrics, more than {MOST_METRICS:,}; split it.")
        if parsed.measured is not None and not EARLIEST <= parsed.measured < LATEST:
            raise WinaError(f"its date is {parsed.measured:g} seconds since 1970, outside the years 2000 to 2099.")
        file = ImportedFile(
            file=path.name,
            digest=hashlib.sha256(content).hexdigest(),
            tool=parsed.tool,
            version=parsed.version,
            measured=parsed.measured,
            points=parsed.points,
        )
    except WinaError as error:
        raise WinaError(f"{path} cannot be imported: {error}") from error
    except ValidationError as error:  # one of the file's texts is too long or has control characters
        raise WinaError(f"{path} cannot be imported: {explain(error)}") from error
    except _UNREADABLE as error:
        raise WinaError(f"{path} cannot be imported: it holds what cannot be read ({error}).") from error
    return file, parsed.remarks


def _text(content: bytes) -> str:
    try:
        text = content.decode("utf-16" if content.startswith(_UTF16) else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise WinaError(f"it is not a text; expected {KINDS}.") from error
    if "\0" in text:
        raise WinaError(f"it is not a text; expected {KINDS}.")
    return text


def parse(text: str, file: str) -> Parsed:
    """Return the points of a text; raise WinaError for one of another kind."""
    start = text.lstrip()
    if not start:
        raise WinaError("it is empty.")
    # A log of llama-perplexity begins with a bracket, too: "[1]4.5216,".
    if start.startswith("[") and not llama_cpp.is_log(start):
        return llama_cpp.from_json(text)
    if start.startswith("{"):
        lines = start.splitlines()
        is_test = '"avg_ts"' in lines[0]  # a line of JSONL is a whole test
        return llama_cpp.from_lines(text) if is_test else lm_eval.from_json(text, file)
    if llama_cpp.LOG_HEADING in text:
        return llama_cpp.from_log(text, file)
    if "Final estimate: PPL" in text or llama_cpp.is_log(start):
        raise WinaError("it is a log of llama-perplexity without KL divergences; run it with --kl-divergence.")
    header = next(csv.reader(io.StringIO(start.splitlines()[0])), [])
    if header and set(header) >= llama_cpp.BENCH_COLUMNS:
        return llama_cpp.from_csv(start)
    if len(header) > 1:
        return named_columns.from_csv(start)
    raise WinaError(f"its kind is unknown; expected {KINDS}.")
