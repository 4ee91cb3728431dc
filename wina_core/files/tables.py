"""Writing files for other programs: whole or not at all, a batch of rows at a time.

In CSV and TSV, no spreadsheet takes a text for a formula; in LaTeX and Markdown, special characters are escaped.
"""

import csv
import errno
import io
import json
import math
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Protocol

from wina_core.errors import WinaError


class Rows(Protocol):
    """Rows of a table that are counted and iterated more than once: a list, or an object that makes them anew."""

    def __len__(self) -> int:
        """Return how many there are."""

    def __iter__(self) -> Iterator[Sequence[object]]:
        """Begin with the first row."""


Format = Callable[[Sequence[str], Rows, IO[bytes]], None]

BATCH = 10_000
"""Rows that are in memory at once."""
_MOST_ROWS = 2**20 - 1
"""Rows of a spreadsheet below its header."""


def write_table(columns: Sequence[str], rows: Rows, path: Path, suffix: str = "") -> None:
    """Write a table in the format of the path's suffix: .csv, .tsv, .json, .md, .tex, .xlsx or .parquet.

    `suffix` takes precedence over that of the path.

    Markdown and LaTeX, made to be read, show six digits of a float; the others keep every digit (XLSX sixteen). An
    absent value (None) is an empty cell or null. NaN and the infinities stay numbers in Parquet, and are the words nan,
    inf and -inf elsewhere. A Parquet column has one type, text if its values differ in kind. LaTeX needs the package
    booktabs.

    No text becomes a formula: XLSX holds it as text, and in CSV and TSV an apostrophe precedes a text that a
    spreadsheet would compute (`neutralized`). LaTeX and Markdown escape their special characters. The permissions are
    those of the process's umask. Raises WinaError for an unknown suffix, for more rows than a spreadsheet has, and if
    the file cannot be written; an earlier file of that name then stays as it was.
    """
    write = _format_of(path, suffix)
    if write is _spreadsheet:
        _check_room(rows)
    with written_atomically(path) as file:
        write(columns, rows, file)


def write_lines(lines: Iterable[str], path: Path) -> None:
    """Write a text line by line. Raises WinaError as `write_table`."""
    with written_atomically(path) as file:
        for line in lines:
            file.write(line.encode())


def table_text(columns: Sequence[str], rows: Rows, suffix: str) -> str:
    """Return a table as `write_table` writes it, in a format that is text."""
    content = io.BytesIO()
    FORMATS[suffix](columns, rows, content)
    return content.getvalue().decode()


def check_table_file(path: Path, suffix: str = "") -> None:
    """Raise the WinaError of `write_table` for the suffix or the folder, before minutes are spent on the numbers."""
    _format_of(path, suffix)
    if not path.parent.is_dir():
        raise WinaError(_write_error(path, FileNotFoundError(errno.ENOENT, "")))
    if not os.access(path.parent, os.W_OK):
        raise WinaError(_write_error(path, PermissionError(errno.EACCES, "")))


def _format_of(path: Path, suffix: str = "") -> Format:
    render = FORMATS.get(suffix or path.suffix.lower())
    if render is None:
        raise WinaError(f"The format of {path.name!r} is unknown; end its name in one of {', '.join(FORMATS)}.")
    return render


def write_atomically(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file as `written_atomically`."""
    with written_atomically(path, private=private) as file:
        file.write(content)


@contextmanager
def written_atomically(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Open a file under a temporary name beside `path`, and rename it once it is on the disk.

    Only the user can read and write a private file. Raises WinaError if it cannot be written. An error leaves the
    earlier file and nothing else.
    """
    _check_name(path)
    # Not tempfile's: its files have mode 0600 in place of the umask's.
    partial = path.parent / f".{uuid.uuid4().hex}.partial"
    try:
        with partial.open("xb") as file:
            if private:
                partial.chmod(0o600)
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise WinaError(_write_error(path, error)) from error
    finally:
        with suppress(OSError):  # renamed already, or the first error is the one to report
            partial.unlink()


def _check_name(path: Path) -> None:
    """Raise WinaError for a name that no file can have."""
    try:
        with suppress(OSError):
            path.lstat()
    except ValueError as error:
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


def _batches(rows: Rows) -> Iterator[list[Sequence[object]]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, BATCH)):
        yield batch


def finite_or_text(cell: object) -> object:
    """Return a float that JSON has no number for as its text, anything else as it is."""
    return str(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell


def _of_lines(lines: Callable[[Sequence[str], Rows], Iterable[str]]) -> Format:
    def write(columns: Sequence[str], rows: Rows, file: IO[bytes]) -> None:
        for line in lines(columns, rows):
            file.write(line.encode())

    return write


class _Lines:
    """Lines of a CSV writer, with LF for its CR LF: it quotes a CR in a cell only if its line ends contain CR."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, line: str) -> None:
        self._file.write(line[:-2].encode() + b"\n")


def _separated(separator: str) -> Format:
    def write(columns: Sequence[str], rows: Rows, file: IO[bytes]) -> None:
        safe = lru_cache(neutralized)  # most texts are in many rows
        writer = csv.writer(_Lines(file), delimiter=separator, lineterminator="\r\n")
        for row in chain([columns], rows):
            writer.writerow([safe(cell) if isinstance(cell, str) else cell for cell in row])

    return write


def _json(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """Write JSON with one field a line, not by pandas, which keeps fifteen digits at most."""
    # Separators break the lines: with `indent`, json leaves its encoder in C for one in Python.
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",\n  ", ": ")).encode
    before = "["
    for row in rows:
        fields = encode({name: finite_or_text(cell) for name, cell in zip(columns, row, strict=True)})
        yield f"{before}\n {{\n  {fields[1:-1]}\n }}"
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def _markdown(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """Write Markdown, not by pandas, which needs another package and does not escape bars."""

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |\n"

    yield line(map(markdown_text, columns))
    yield line("---:" if numeric else "---" for numeric in _numeric(columns, rows))
    for row in rows:
        yield line(markdown_text(_readable(cell)) for cell in row)


def _latex(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """Write LaTeX, not by pandas, which takes 25 times as long: a minute for 100,000 rows."""

    def line(cells: Iterable[str]) -> str:
        return " & ".join(map(latex_text, cells)) + " \\\\\n"

    alignment = "".join("r" if numeric else "l" for numeric in _numeric(columns, rows))
    yield f"\\begin{{tabular}}{{{alignment}}}\n\\toprule\n{line(columns)}\\midrule\n"
    for row in rows:
        yield line(map(_readable, row))
    yield "\\bottomrule\n\\end{tabular}\n"


def _numeric(columns: Sequence[str], rows: Rows) -> list[bool]:
    return [all(issubclass(kind, int | float) for kind in kinds) for kinds in _kinds(columns, rows)]


def _kinds(columns: Sequence[str], rows: Rows) -> list[set[type]]:
    """Return the types of each column's cells that are not None."""
    kinds: list[set[type]] = [set() for _ in columns]
    for batch in _batches(rows):
        for of_column, cells in zip(kinds, zip(*batch, strict=True), strict=True):
            of_column.update(map(type, cells))
    return [of_column - {type(None)} for of_column in kinds]


def _readable(cell: object) -> str:
    if cell is None:
        return ""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _check_room(rows: Rows) -> None:
    if len(rows) > _MOST_ROWS:
        raise WinaError(
            f"A spreadsheet has no room for {len(rows):,} rows, at most {_MOST_ROWS:,}; write .parquet, .csv or .json."
        )


def _spreadsheet(columns: Sequence[str], rows: Rows, file: IO[bytes]) -> None:
    from openpyxl import Workbook  # a third of a second, in a module that the window imports
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    from openpyxl.styles import Font

    book = Workbook(write_only=True)
    sheet = book.create_sheet("table")
    sheet.freeze_panes = "A2"

    def cell(content: object) -> Any:
        content = finite_or_text(content)
        if not isinstance(content, str):
            return content
        text = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("", content))
        text.data_type = "s"  # neither a formula nor an error, whatever it begins with
        text.quotePrefix = True  # it stays a text when a user edits the cell
        return text

    titles = [cell(column) for column in columns]
    for title in titles:
        title.font = Font(bold=True)
    sheet.append(titles)
    for row in rows:
        sheet.append([cell(content) for content in row])
    book.save(file)


def _parquet(columns: Sequence[str], rows: Rows, file: IO[bytes]) -> None:
    """Write Parquet, not by pandas, which makes NaN null."""
    import pyarrow  # a tenth of a second, in a module that the window imports
    from pyarrow import parquet

    kinds = [_common(column_kinds) for column_kinds in _kinds(columns, rows)]
    types = [pyarrow.array([kind()]).type for kind in kinds]
    schema = pyarrow.schema(list(zip(columns, types, strict=True)))
    with parquet.ParquetWriter(file, schema) as writer:
        for batch in chain(_batches(rows), () if len(rows) else ([],)):
            cells = zip(*batch, strict=True) if batch else ((),) * len(kinds)
            arrays = [
                pyarrow.array([cell if cell is None else kind(cell) for cell in of_column], type_)
                for kind, type_, of_column in zip(kinds, types, cells, strict=True)
            ]
            writer.write_table(pyarrow.table(arrays, schema=schema))


def _common(kinds: set[type]) -> type:
    """Return the type that holds values of all these types."""
    if len(kinds) <= 1:
        return next(iter(kinds), type(None))
    return float if kinds == {int, float} else str


FORMATS: dict[str, Format] = {
    ".csv": _separated(","),
    ".tsv": _separated("\t"),
    ".json": _of_lines(_json),
    ".md": _of_lines(_markdown),
    ".tex": _of_lines(_latex),
    ".xlsx": _spreadsheet,
    ".parquet": _parquet,
}


_FORMULA = re.compile(r"""[\s"'\x00-\x20\ufeff\u200b]*(?:[=+\-@\uff1d\uff0b\uff0d\uff20]|(?<=[\t\r]))""")
"""Beginning of a formula, also in full width, after what a spreadsheet may skip; a tab and a CR split cells."""
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def neutralized(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would compute; plain numbers stay."""
    is_formula = _FORMULA.match(text) is not None and _NUMBER.fullmatch(text) is None
    return f"'{text}" if is_formula else text


_LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
}
_MARKDOWN = re.compile(r"[\\`*\[\]<>|~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
"""Underscores within a word and ampersands without a semicolon mean themselves."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Line ends among them."""


def latex_text(text: str) -> str:
    escaped = "".join(_LATEX.get(character, character) for character in _CONTROL.sub(" ", text))
    # At the beginning of a row, a bracket or star would be an argument of the \\ before it.
    return f"{{}}{escaped}" if escaped[:1] in ("[", "*") and escaped else escaped


def markdown_text(text: str) -> str:
    return _MARKDOWN.sub(r"\\\g<0>", _CONTROL.sub(" ", text))
