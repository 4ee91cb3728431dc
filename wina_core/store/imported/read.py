"""Reading of another tool's file: its kind is recognized by its content."""

import csv
import hashlib
import io
from pathlib import Path

from pydantic import ValidationError

from wina_core.errors import WinaError, explain
from wina_core.files.user_file import read_file
from wina_core.records.imports import EARLIEST, LATEST, ImportedFile
from wina_core.store.imported import llama_bench, llama_perplexity, lm_eval, named_columns
from wina_core.store.imported.parsed import Parsed

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks, as PowerShell writes redirected output."""
KINDS = "llama-bench's JSON, JSONL or CSV, llama-perplexity's log with --kl-divergence, lm-eval's JSON, or a CSV table"
MOST_POINTS = 10_000
MOST_METRICS = 2_000
"""Points and different metrics of one file; each metric is a column of tables."""
_UNREADABLE = (ValueError, OverflowError, TypeError, csv.Error)
"""What Python's readers of numbers, dates and tables raise for content that no tool writes."""


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
    except ValidationError as error:  # a text of theirs that is too long or has control characters
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
    if start.startswith("[") and not llama_perplexity.is_log(start):
        return llama_bench.from_json(text)
    if start.startswith("{"):
        lines = start.splitlines()
        is_test = '"avg_ts"' in lines[0]
        return llama_bench.from_lines(text) if is_test else lm_eval.from_json(text, file)
    if llama_perplexity.HEADING in text:
        return llama_perplexity.from_log(text, file)
    if "Final estimate: PPL" in text or llama_perplexity.is_log(start):
        raise WinaError("it is a log of llama-perplexity without KL divergences; run it with --kl-divergence.")
    header = next(csv.reader(io.StringIO(start.splitlines()[0])), [])
    if header and set(header) >= llama_bench.COLUMNS:
        return llama_bench.from_csv(start)
    if len(header) > 1:
        return named_columns.from_csv(start)
    raise WinaError(f"its kind is unknown; expected {KINDS}.")
