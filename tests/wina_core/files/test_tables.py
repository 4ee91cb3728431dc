"""Tables as files: every digit, and whole or not at all."""

import csv
import errno
import io
import json
import math
import os
import re
from pathlib import Path
from typing import IO, Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from wina_core.errors import WinaError
from wina_core.files.tables import FORMATS, neutralized, table_text, write_table

COLUMNS = ("method", "sparsity", "acc", "n")
ROWS = [("wina, global", 0.1 + 0.2, 2 / 3, 400), ('say "teal" | a_b & 50 %\nüñ😀', None, math.nan, 0)]


@given(value=st.floats())
def test_csv_keeps_every_digit_and_quotes_text(value: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "table.csv"
    write_table(COLUMNS, [*ROWS, ("", value, None, 1)], path)
    with path.open(encoding="utf-8", newline="") as file:
        header, first, second, drawn = csv.reader(file)
    assert header == list(COLUMNS)
    assert first == ["wina, global", "0.30000000000000004", "0.6666666666666666", "400"]
    assert second == [ROWS[1][0], "", "nan", "0"]
    assert float(drawn[1]) == pytest.approx(value, rel=0, abs=0, nan_ok=True)


def test_json_is_strict_and_keeps_every_digit(tmp_path: Path) -> None:
    write_table(COLUMNS, ROWS, tmp_path / "table.json")
    text = (tmp_path / "table.json").read_text(encoding="utf-8")

    def refuse(word: str) -> float:
        raise AssertionError(f"{word} is not JSON")

    first, second = json.loads(text, parse_constant=refuse)
    assert first == dict(zip(COLUMNS, ROWS[0], strict=True))
    assert second == {"method": ROWS[1][0], "sparsity": None, "acc": "nan", "n": 0}


def test_markdown_aligns_numbers_and_escapes_bars(tmp_path: Path) -> None:
    write_table(COLUMNS, ROWS, tmp_path / "table.md")
    assert (tmp_path / "table.md").read_text(encoding="utf-8").splitlines() == [
        "| method | sparsity | acc | n |",
        "| --- | ---: | ---: | ---: |",
        "| wina, global | 0.3 | 0.666667 | 400 |",
        '| say "teal" \\| a_b & 50 % üñ😀 |  | nan | 0 |',
    ]


def test_latex_is_escaped(tmp_path: Path) -> None:
    write_table(COLUMNS, ROWS, tmp_path / "table.tex")
    text = (tmp_path / "table.tex").read_text(encoding="utf-8")
    assert text.startswith("\\begin{tabular}{lrrr}\n\\toprule\nmethod & sparsity & acc & n \\\\\n\\midrule\n")
    assert text.endswith("\\bottomrule\n\\end{tabular}\n")
    assert 'say "teal" | a\\_b \\& 50 \\% üñ😀 &  & nan & 0 \\\\' in text


def test_a_spreadsheet_keeps_numbers_and_takes_no_text_for_a_formula(tmp_path: Path) -> None:
    texts = ["=1+1", "+1", "#N/A", "wina, global", "bell\a"]
    rows = [(text, 2 / 3, 400, None, math.nan) for text in texts]
    write_table(("=SUM(A1)", "x", "n", "none", "nan"), rows, tmp_path / "table.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "table.xlsx").active
    header, *lines = sheet.iter_rows()
    assert [(cell.value, cell.data_type, cell.font.bold) for cell in header[:2]] == [
        ("=SUM(A1)", "s", True),
        ("x", "s", True),
    ]
    assert [line[0].value for line in lines] == ["=1+1", "+1", "#N/A", "wina, global", "bell"]
    assert {line[0].data_type for line in lines} == {"s"}
    assert {tuple(cell.value for cell in line[1:]) for line in lines} == {(2 / 3, 400, None, "nan")}
    assert {line[2].data_type for line in lines} == {"n"}


@pytest.mark.parametrize("batch", [1, 10_000])
def test_parquet_keeps_the_types_of_all_batches_and_every_digit(
    batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wina_core.files.tables.BATCH", batch)
    rows = [("a", 0.1 + 0.2, 3, 1, "x", None, True), ("=b", math.inf, None, 2.5, 4, None, False)]
    names = ("text", "float", "int", "number", "mixed", "none", "bool")
    write_table(names, rows, tmp_path / "table.parquet")
    table = parquet.read_table(tmp_path / "table.parquet")
    assert table.to_pydict() == {
        "text": ["a", "=b"],
        "float": [0.1 + 0.2, math.inf],
        "int": [3, None],
        "number": [1.0, 2.5],
        "mixed": ["x", "4"],
        "none": [None, None],
        "bool": [True, False],
    }
    kinds = ["string", "double", "int64", "double", "string", "null", "bool"]
    assert list(map(str, table.schema.types)) == kinds
    write_table(names[:2], [("a", math.nan)], tmp_path / "nan.parquet")
    assert math.isnan(parquet.read_table(tmp_path / "nan.parquet")["float"][0].as_py())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "table",
            "'table' is unknown; end its name in one of .csv, .tsv, .json, .md, .tex, .xlsx, .parquet",
        ),
        ("table.xls", "The format of 'table.xls' is unknown"),
        ("missing/a.csv", "because its folder does not exist"),
        ("folder.csv", r"folder\.csv cannot be written \(.+\); choose another place\.$"),
        ("nul\0.csv", r"cannot be written \(.+\); choose another name\.$"),
        ("half\ud800.csv", r"cannot be written \(.+\); choose another name\.$"),
    ],
)
def test_a_name_that_no_table_can_have_is_told_and_leaves_nothing(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(WinaError, match=message):
        write_table(COLUMNS, ROWS, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]


# ---- names that do harm ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+A1", "-A1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", '"=1', "'=1", "' \"=1", "\uff1d1", "\uff20a",
     "\ta", "=", "\ufeff=1", "-1+2", "--1", "'-"],
)  # fmt: skip
def test_a_text_that_a_spreadsheet_would_compute_gets_an_apostrophe(text: str) -> None:
    assert neutralized(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "wina", "a=1", "'quoted'", "1-2", "-1.5", "+2e-05", "(=1)", "wina - all", "a\tb"])
def test_other_texts_and_plain_numbers_stay(text: str) -> None:
    assert neutralized(text) == text


@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".tsv", "\t")])
@given(names=st.lists(st.text(), min_size=1, max_size=3), texts=st.data())
def test_any_text_is_read_back_from_csv(suffix: str, separator: str, names: list[str], texts: st.DataObject) -> None:
    cells = st.text() | st.text("=+-@\t\r\n\"', a1", max_size=6)
    rows = texts.draw(st.lists(st.lists(cells, min_size=len(names), max_size=len(names)), max_size=3))
    written = io.StringIO(table_text(names, rows, suffix), newline="")
    read = list(csv.reader(written, delimiter=separator))
    assert read == [list(map(neutralized, row)) for row in (names, *rows)]


@given(names=st.lists(st.text(), min_size=1, max_size=3), text=st.text() | st.text("\\\\|`\r\n[]<>", max_size=8))
def test_a_markdown_table_has_the_same_bars_whatever_its_cells(names: list[str], text: str) -> None:
    *lines, last = table_text(names, [[text] * len(names)], ".md").split("\n")
    assert last == ""
    assert len(lines) == len(("names", "rule", "row"))
    for line in lines:
        assert "".join(line.splitlines()) == line
        unescaped = re.sub(r"\\.", "", line)
        assert unescaped.count("|") == 1 + len(names)
        assert not set("<`[") & set(unescaped)


@given(names=st.lists(st.text(), min_size=1, max_size=3), text=st.text() | st.text("\\\\&%$#{}[*^~\r\n", max_size=8))
def test_a_latex_table_has_the_same_cells_whatever_they_hold(names: list[str], text: str) -> None:
    head, top, titles, middle, row, bottom, end, last = table_text(names, [[text] * len(names)], ".tex").split("\n")
    assert (top, middle, bottom, end, last) == ("\\toprule", "\\midrule", "\\bottomrule", "\\end{tabular}", "")
    assert head.startswith("\\begin{tabular}")
    for line in (titles, row):
        assert "".join(line.splitlines()) == line
        assert not line.startswith(("[", "*"))
        assert line.endswith(" \\\\")
        plain = re.sub(r"\\(textbackslash|textasciitilde|textasciicircum)\{\}|\\[&%$#_{}]|\{\}", "", line[:-3])
        assert plain.count("&") == len(names) - 1
        assert not set("\\%$#{}~^") & set(plain)


# ---- full disks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_disk_that_fills_up_in_the_middle_leaves_the_earlier_file(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / f"table{suffix}"
    write_table(COLUMNS, ROWS, target)
    before = target.read_bytes()

    class Full(io.FileIO):
        """File on a disk that has room for a thousand bytes."""

        def write(self, content: Any) -> int:
            """Refuse what is more."""
            if self.tell() + len(content) > 1000:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(content) or 0

    def opened(path: Path, mode: str) -> IO[bytes]:
        assert mode == "xb"
        return io.BufferedWriter(Full(path, "x"), 200)

    rows = [(f"row {number}", 0.5, 0.5, number) for number in range(1000)]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opened)
        with pytest.raises(WinaError, match=r"^The disk is full, so .+ was not written; free some space or choose"):
            write_table(COLUMNS, rows, target)
    assert target.read_bytes() == before
    assert list(tmp_path.iterdir()) == [target]
