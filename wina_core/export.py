"""Writing files for other programs: whole or not at all."""

import csv
import errno
import io
import json
import math
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from wina_core.errors import WinaError

Rows = Sequence[Sequence[object]]
Format = Callable[[Sequence[str], Rows], str]


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]], path: Path) -> None:
    """Write a table in the format that the suffix names: .csv, .tsv, .json, .md or .tex.

    CSV, TSV and JSON keep every digit of a float; an absent value (None) is an empty cell or null, NaN and the
    infinities are the words nan, inf and -inf. Markdown and LaTeX, made to be read, show six digits. Text is written
    as it is: a spreadsheet may take a cell that begins with "=" for a formula. Raises WinaError for an unknown
    suffix and when the file cannot be written; an earlier file of that name then stays as it was.
    """
    write_atomically(path, _format_of(path)(columns, list(rows)).encode())


def check_table_file(path: Path) -> None:
    """Raise WinaError where `write_table` would for the suffix or the folder: before what is written takes minutes."""
    _format_of(path)
    if not path.parent.is_dir():
        raise WinaError(_write_error(path, FileNotFoundError(errno.ENOENT, "")))
    if not os.access(path.parent, os.W_OK):
        raise WinaError(_write_error(path, PermissionError(errno.EACCES, "")))


def _format_of(path: Path) -> Format:
    render = FORMATS.get(path.suffix.lower())
    if render is None:
        raise WinaError(f"Cannot tell the format of {path.name!r}; end its name in one of {', '.join(FORMATS)}.")
    return render


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file under a temporary name beside it, then rename; WinaError when that cannot be done."""
    partial = path.parent / f".{uuid.uuid4().hex}.partial"
    try:
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):  # the first error is the one to tell
            partial.unlink()
        raise WinaError(_write_error(path, error)) from error


def _write_error(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk is full, so {path} was not written; free some space or choose another folder."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{path} cannot be written because its folder is read-only; choose another folder."
    if error.errno == errno.ENOENT:
        return f"{path} cannot be written because its folder does not exist; make the folder or choose another."
    return f"{path} cannot be written ({error.strerror}); choose another place."


# ---- formats ---------------------------------------------------------------------------------------------------


def _separated(columns: Sequence[str], rows: Rows, delimiter: str) -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)  # floats by repr: every digit
    return text.getvalue()


def _json(columns: Sequence[str], rows: Rows) -> str:
    def value(cell: object) -> object:
        return str(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell

    records = [{name: value(cell) for name, cell in zip(columns, row, strict=True)} for row in rows]
    return json.dumps(records, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _markdown(columns: Sequence[str], rows: Rows) -> str:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |\n"

    alignment = ["---:" if numeric else "---" for numeric in _numeric(columns, rows)]
    return line(columns) + line(alignment) + "".join(line(map(_readable, row)) for row in rows)


def _latex(columns: Sequence[str], rows: Rows) -> str:
    def line(cells: Iterable[str]) -> str:
        return " & ".join("".join(_LATEX.get(character, character) for character in cell) for cell in cells) + " \\\\\n"

    alignment = "".join("r" if numeric else "l" for numeric in _numeric(columns, rows))
    body = "".join(line(map(_readable, row)) for row in rows)
    return f"\\begin{{tabular}}{{{alignment}}}\n\\hline\n{line(columns)}\\hline\n{body}\\hline\n\\end{{tabular}}\n"


_LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "\n": " ",
}


def _numeric(columns: Sequence[str], rows: Rows) -> list[bool]:
    return [all(isinstance(row[index], int | float | None) for row in rows) for index in range(len(columns))]


def _readable(cell: object) -> str:
    if cell is None:
        return ""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


FORMATS: dict[str, Format] = {
    ".csv": lambda columns, rows: _separated(columns, rows, ","),
    ".tsv": lambda columns, rows: _separated(columns, rows, "\t"),
    ".json": _json,
    ".md": _markdown,
    ".tex": _latex,
}
