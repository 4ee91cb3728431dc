"""The files of texts: plain ones, and rows of JSON lines."""

import json
import re
import sys
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any

from wina_core.errors import WinaError
from wina_core.files.paths import what_is_at
from wina_core.files.user_file import open_file

DATA = "data:"
"""Prefix of the name of a data set of a data folder, as in data:lambada_openai[3500:]."""
LINES = ".jsonl"
_COLUMNS = ("text", "page")
"""Columns of data sets that hold prose."""
_RANGE = re.compile(r"(?P<name>.*)\[(?P<first>\d*):(?P<stop>\d*)\]")
_SPLITS = ("test", "validation", "train")
_MAX_DIGITS = 18
"""Of a row's number: Python counts no further than sys.maxsize, and converts no more than 4,300 digits."""
_LONGEST_SHOWN = 60


def split_range(source: str) -> tuple[str, str]:
    """Return a source without its range of rows, and the range, such as "[3500:]"; empty where it has none.

    Only JSON lines and data sets have rows.
    """
    match = _RANGE.fullmatch(source)
    if match is None or not (match["name"].endswith(LINES) or source.startswith(DATA)):
        return source, ""
    return match["name"], source[len(match["name"]) :]


def in_data_folder(source: str, folder: Path | None) -> str:
    """Return the file, with its range of rows, that "data:NAME[FIRST:STOP]" names; another source as it is.

    A data set is a folder of the data folder, with a file for each split; that of test is taken, or validation, or
    train. Raises WinaError without a data folder, for a name that is not that of a single folder, and where there is no
    such file.
    """
    if not source.startswith(DATA):
        return source
    name, rows = split_range(source)
    if folder is None:
        raise WinaError(
            f"{source} lies in a data folder; give one by the option data-folder, or the path of the .jsonl file."
        )
    name = name.removeprefix(DATA)
    if name in ("", "..") or Path(name).name != name:
        raise WinaError(f"{_shown(source)!r} names no folder of the data folder; write one name, as in data:wikitext.")
    dataset = folder.expanduser() / name
    file = next((path for split in _SPLITS if what_is_at(path := dataset / f"{split}{LINES}") == "file"), None)
    if file is None:
        raise WinaError(f"The data folder {folder} has no {dataset.name}/test{LINES}; add it, or choose another text.")
    return f"{file.resolve()}{rows}"


def share_rows(one: str, other: str) -> bool:
    """Return whether two sources are one text, or rows of one file that overlap."""
    (name, rows), (other_name, other_rows) = split_range(one), split_range(other)
    (first, stop), (other_first, other_stop) = _bounds(rows), _bounds(other_rows)
    before = stop is not None and stop <= other_first
    return name == other_name and not before and not (other_stop is not None and other_stop <= first)


def read_text(path: Path, rows: str, longest: int) -> str:
    """Return at most `longest` characters of a text; the rows of JSON lines have blank lines between them.

    Raises WinaError for text that is not UTF-8 or has half a surrogate pair, lines that are no JSON objects with a
    column "text" or "page", and a range beyond the end.
    """
    try:
        with open_file(path, "text") as file, TextIOWrapper(file, encoding="utf-8", newline="") as text:
            if path.suffix != LINES:
                return text.read(longest)
            first, stop = _bounds(rows)
            passages, size, count = [], 0, first
            for count, line in enumerate(islice(text, first, stop), start=first + 1):
                # Rows are counted to the end: a range beyond it is an error, however short the text may be.
                if size < longest:
                    passages.append(_prose(line, path, count))
                    size += len(passages[-1]) + 2
    except UnicodeDecodeError as error:
        raise WinaError(f"The text file {path} is not UTF-8; save it in that encoding.") from error
    if not passages or (stop is not None and count < stop):
        raise WinaError(f"{path} ends before the rows {_shown(rows) or '[0:]'}; choose rows that it has.")
    return "\n\n".join(passages)[:longest]


def _bounds(rows: str) -> tuple[int, int | None]:
    first, _, stop = rows.strip("[]").partition(":")
    return _number(first or "0"), _number(stop) if stop else None


def _number(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else sys.maxsize


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _prose(line: str, path: Path, number: int) -> str:
    try:
        content: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WinaError(f"Line {number:,} of {path} is no JSON; each line must be an object.") from error
    passage = next((content[name] for name in _COLUMNS if isinstance(content, dict) and name in content), None)
    if not isinstance(passage, str):
        raise WinaError(f'Line {number:,} of {path} has no column "text" or "page"; choose another file.')
    try:
        # JSON can escape half of a surrogate pair, which Python reads but cannot encode.
        passage.encode()
    except UnicodeEncodeError as error:
        raise WinaError(
            f"Line {number:,} of {path} has half a surrogate pair ({passage[error.start]!r}), which is no character; "
            "remove it."
        ) from error
    return passage
