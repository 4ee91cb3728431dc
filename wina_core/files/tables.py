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
from typing import Any

from wina_core.errors import WinaError

Rows = Sequence[Sequence[object]]
Format = Callable[[Sequence[str], Rows], bytes]

_MOST_ROWS = 2**20 - 1
"""Of a spreadsheet, below its header."""


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]], path: Path) -> None:
    """Write a table in the format that the suffix names: .csv, .tsv, .json, .md, .tex, .xlsx or .parquet.

    All but Markdown and LaTeX keep every digit of a float (XLSX sixteen); those, made to be read, show six. An absent
    value (None) is an empty cell or null. NaN and the infinities are themselves in Parquet, and elsewhere the words
    nan, inf and -inf. Parquet has one type for each column, text where its values differ in kind. XLSX holds text as
    text; from CSV and TSV, where it stands as it is, a spreadsheet may take a cell that begins with "=" for a formula.
    LaTeX needs the package booktabs. Raises WinaError for an unknown suffix, for more rows than a spreadsheet has and
    when the file cannot be written; an earlier file of that name then stays as it was.
    """
    write_atomically(path, _format_of(path)(columns, list(rows)))


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
    except (OSError, ValueError) as error:  # a ValueError for a name that no file can have
        with suppress(OSError):  # the first error is the one to tell
            partial.unlink()
        if isinstance(error, OSError):
            raise WinaError(_write_error(path, error)) from error
        raise WinaError(f"{str(path)!r} cannot be written ({error}); choose another name.") from error


def _write_error(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk is full, so {path} was not written; free some space or choose another folder."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{path} cannot be written because its folder is read-only; choose another folder."
    if error.errno == errno.ENOENT:
        return f"{path} cannot be written because its folder does not exist; make the folder or choose another."
    return f"{path} cannot be written ({error.strerror}); choose another place."


# ---- formats ---------------------------------------------------------------------------------------------------


def _separated(columns: Sequence[str], rows: Rows, delimiter: str) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)  # floats by repr: every digit
    return text.getvalue().encode()


def _json(columns: Sequence[str], rows: Rows) -> bytes:
    def value(cell: object) -> object:
        return str(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell

    records = [{name: value(cell) for name, cell in zip(columns, row, strict=True)} for row in rows]
    return (json.dumps(records, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _markdown(columns: Sequence[str], rows: Rows) -> bytes:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |\n"

    alignment = ["---:" if numeric else "---" for numeric in _numeric(columns, rows)]
    return (line(columns) + line(alignment) + "".join(line(map(_readable, row)) for row in rows)).encode()


def _latex(columns: Sequence[str], rows: Rows) -> bytes:
    def line(cells: Iterable[str]) -> str:
        return " & ".join(map(latex_text, cells)) + " \\\\\n"

    alignment = "".join("r" if numeric else "l" for numeric in _numeric(columns, rows))
    body = "".join(line(map(_readable, row)) for row in rows)
    head = f"\\begin{{tabular}}{{{alignment}}}\n\\toprule\n{line(columns)}\\midrule\n"
    return f"{head}{body}\\bottomrule\n\\end{{tabular}}\n".encode()


def latex_text(text: str) -> str:
    """Any text as LaTeX prints it, in one line."""
    return "".join(_LATEX.get(character, character) for character in text)


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


def _spreadsheet(columns: Sequence[str], rows: Rows) -> bytes:
    from openpyxl import Workbook  # half a second, in a module that the window imports
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE, Cell
    from openpyxl.styles import Font

    if len(rows) > _MOST_ROWS:
        raise WinaError(f"A spreadsheet has no room for {len(rows):,} rows, at most {_MOST_ROWS:,}; write .parquet.")
    book = Workbook(write_only=True)
    sheet = book.create_sheet("table")
    sheet.freeze_panes = "A2"

    def text(value: object, bold: bool = False) -> Cell:
        cell = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("", str(value)))
        cell.data_type = "s"  # neither a formula nor an error, whatever it begins with
        cell.quotePrefix = True
        cell.font = Font(bold=bold)
        return cell

    def is_number(value: object) -> bool:
        return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))

    sheet.append([text(name, bold=True) for name in columns])
    for row in rows:
        sheet.append([value if value is None or is_number(value) else text(value) for value in row])
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def _parquet(columns: Sequence[str], rows: Rows) -> bytes:
    import pyarrow  # a tenth of a second, in a module that the window imports
    from pyarrow import parquet

    def values(index: int) -> list[object]:
        column = [row[index] for row in rows]
        kinds = {type(value) for value in column if value is not None}
        if len(kinds) <= 1:
            return column
        common: Callable[[Any], object] = float if kinds == {int, float} else str
        return [None if value is None else common(value) for value in column]

    content = io.BytesIO()
    table = pyarrow.table([pyarrow.array(values(index)) for index in range(len(columns))], names=list(columns))
    parquet.write_table(table, content)
    return content.getvalue()


FORMATS: dict[str, Format] = {
    ".csv": lambda columns, rows: _separated(columns, rows, ","),
    ".tsv": lambda columns, rows: _separated(columns, rows, "\t"),
    ".json": _json,
    ".md": _markdown,
    ".tex": _latex,
    ".xlsx": _spreadsheet,
    ".parquet": _parquet,
}
