"""Writing files for other programs: whole or not at all."""

import errno
import io
import json
import math
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wina_core.errors import WinaError

if TYPE_CHECKING:
    import pandas as pd

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
    """Raise the WinaError of `write_table` for the suffix or the folder, before minutes are spent on the numbers."""
    _format_of(path)
    if not path.parent.is_dir():
        raise WinaError(_write_error(path, FileNotFoundError(errno.ENOENT, "")))
    if not os.access(path.parent, os.W_OK):
        raise WinaError(_write_error(path, PermissionError(errno.EACCES, "")))


def _format_of(path: Path) -> Format:
    render = FORMATS.get(path.suffix.lower())
    if render is None:
        raise WinaError(f"The format of {path.name!r} is unknown; end its name in one of {', '.join(FORMATS)}.")
    return render


def write_atomically(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file under a temporary name beside it, then rename; WinaError when that cannot be done.

    Only the user can read and write a private one.
    """
    partial = path.parent / f".{uuid.uuid4().hex}.partial"
    try:
        with partial.open("xb") as file:
            if private:
                partial.chmod(0o600)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except (OSError, ValueError) as error:  # a ValueError for a name that no file can have
        with suppress(OSError):  # the first error is the one to report
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


def _frame(columns: Sequence[str], rows: Rows) -> "pd.DataFrame":
    """Return a frame of the very same objects, NaN and the infinities as words: pandas takes NaN for absent."""
    import pandas as pd  # takes seconds, in a module that the window imports

    cells = [[_word(cell) for cell in row] for row in rows]
    return pd.DataFrame(cells, columns=list(columns), dtype=object)


def _word(cell: object) -> object:
    return str(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell


def _separated(columns: Sequence[str], rows: Rows, separator: str) -> bytes:
    return _frame(columns, rows).to_csv(None, sep=separator, index=False, lineterminator="\n").encode()


def _json(columns: Sequence[str], rows: Rows) -> bytes:
    """Write JSON, not by pandas, which keeps fifteen digits at most."""
    records = [{name: _word(cell) for name, cell in zip(columns, row, strict=True)} for row in rows]
    return (json.dumps(records, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _markdown(columns: Sequence[str], rows: Rows) -> bytes:
    """Write Markdown, not by pandas, which needs another package and does not escape bars."""

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |\n"

    alignment = ["---:" if numeric else "---" for numeric in _numeric(columns, rows)]
    return (line(columns) + line(alignment) + "".join(line(map(_readable, row)) for row in rows)).encode()


def _latex(columns: Sequence[str], rows: Rows) -> bytes:
    """Write LaTeX, not by pandas, which takes 25 times as long: a minute for 100,000 rows."""

    def line(cells: Iterable[str]) -> str:
        return " & ".join(map(latex_text, cells)) + " \\\\\n"

    alignment = "".join("r" if numeric else "l" for numeric in _numeric(columns, rows))
    body = "".join(line(map(_readable, row)) for row in rows)
    head = f"\\begin{{tabular}}{{{alignment}}}\n\\toprule\n{line(columns)}\\midrule\n"
    return f"{head}{body}\\bottomrule\n\\end{{tabular}}\n".encode()


def latex_text(text: str) -> str:
    """Escape any text for LaTeX, in one line."""
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
    import pandas as pd
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    from openpyxl.styles import Font

    if len(rows) > _MOST_ROWS:
        raise WinaError(f"A spreadsheet has no room for {len(rows):,} rows, at most {_MOST_ROWS:,}; write .parquet.")
    frame = _frame(columns, rows).map(lambda cell: ILLEGAL_CHARACTERS_RE.sub("", cell) if type(cell) is str else cell)
    content = io.BytesIO()
    with pd.ExcelWriter(content, engine="openpyxl") as writer:
        frame.to_excel(writer, sheet_name="table", index=False, freeze_panes=(1, 0))
        for number, line in enumerate(writer.sheets["table"].iter_rows()):
            for cell in line:
                if isinstance(cell.value, str):
                    cell.data_type = "s"  # neither a formula nor an error, whatever it begins with
                    cell.quotePrefix = True
                    cell.font = Font(bold=number == 0)
    return content.getvalue()


def _parquet(columns: Sequence[str], rows: Rows) -> bytes:
    """Write Parquet, not by pandas, which makes NaN null."""
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
