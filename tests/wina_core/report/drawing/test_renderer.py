"""The renderer of figures: files with words and vectors, and programs that draw the same files."""

import ast
import csv
import io
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise
from math import inf, nan
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.legend import Legend

from wina_core.files.formulas import neutralized
from wina_core.report.drawing import figure as plain_data
from wina_core.report.drawing.figure import Figure, LinePanel, MapPanel, Series, Style, data_of, with_data, without_data
from wina_core.report.drawing.renderer import draw, render
from wina_core.report.drawing.script import script_of

STYLE = Style(5.0, 3.0)
LINES = LinePanel(
    title="accuracy", x_title="target sparsity (%)", y_title="acc", x_range=(20.0, 70.0), y_range=(0.0, 0.8),
    series=(
        Series("teal", "#d55e00", (25.0, 40.0, 65.0), (0.7, 0.65, 0.1 + 0.2), (0.69, nan, 0.2), (0.71, nan, 0.4), "^"),
        Series("bars", "#0072b2", (30.0, 50.0), (0.6, 0.55), width=4.0),
        Series("paper", "#d55e00", (25.0, 40.0), (0.7, 0.6), marker="o", line="dash", hollow=True),
    ),
    references=(("dense", "#59616c", 0.72),),
)  # fmt: skip
MAP = MapPanel(
    "a map", ("0", "1"), ("q", "k"), ((10.0, 30.0), (nan, 90.0)), (("10", "30"), ("", "90")), "Target sparsity (%)",
    0.0, 100.0, ("#440154", "#21918c", "#fde725"),
)  # fmt: skip
FIGURE: Figure = (LINES, MAP)


def words(svg: bytes) -> list[str]:
    return list(ElementTree.fromstring(svg).itertext())


def test_the_csv_holds_every_digit_and_fills_the_figure_again() -> None:
    data = data_of(FIGURE)
    assert "0.30000000000000004" in data
    assert data.splitlines()[-1] == "1,0,1 k,1,1,90.0,,90"
    empty = without_data(FIGURE)
    assert "0.65" not in repr(empty)
    assert repr(with_data(empty, data)) == repr(FIGURE)  # NaN equals no NaN


def test_the_svg_holds_curves_and_words_not_pictures() -> None:
    content = render((LINES,), STYLE, "svg", title="test plot")
    for word in ("target sparsity (%)", "acc", "teal", "bars", "paper", "dense", "test plot"):
        assert word in words(content)
    assert "accuracy" not in words(content), "a single plot has no title"
    assert b"<image" not in content
    assert b"#d55e00" in content
    middle = sum(LINES.x_range) / 2
    zoomed = render((replace(LINES, x_range=(LINES.x_range[0], middle)),), STYLE, "svg")
    assert b"clip-path" in zoomed, "a zoomed curve ends at the axes"
    assert content == render((LINES,), STYLE, "svg", title="test plot")


def test_the_pdf_is_one_page_of_the_chosen_size_with_its_fonts() -> None:
    content = render((LINES,), STYLE, "pdf")
    assert content.startswith(b"%PDF")
    box = re.search(rb"/MediaBox \[\s*0 0 ([0-9.]+) ([0-9.]+)", content)
    assert box is not None
    assert [float(side) for side in box.groups()] == pytest.approx([5 * 72, 3 * 72], abs=1)
    assert b"/FontFile" in content
    assert b"/Subtype /Image" not in content


def test_names_are_beside_the_ends_of_lines_and_within_the_figure() -> None:
    many = tuple(replace(LINES.series[0], name=f"a name of some length {number}") for number in range(8))
    canvas = draw((replace(LINES, series=many),), STYLE)
    canvas.draw_without_rendering()
    (axes,) = canvas.axes
    legends = [legend for legend in axes.artists if isinstance(legend, Legend)]
    boxes = [text.get_window_extent() for legend in legends for text in legend.get_texts()]
    boxes.sort(key=lambda box: box.y0)
    assert len(boxes) == 9
    assert all(above.y0 >= below.y0 + 0.7 * below.height for below, above in pairwise(boxes))
    assert max(box.x1 for box in boxes) <= canvas.bbox.x1
    assert axes.get_position().width > 0.4


def test_a_tall_map_is_drawn_whole() -> None:
    rows = tuple(map(str, range(80)))
    tall = replace(MAP, rows=rows, values=((10.0, 30.0),) * 79 + ((50.0, 90.0),), texts=(("a", "b"),) * 80)
    found = words(render((tall, tall), STYLE, "svg"))
    assert found.count("a") == 160
    assert len([word for word in found if word in rows]) < 2 * 40, "row names do not overlap"


def test_panels_fill_rows() -> None:
    canvas = draw((LINES,) * 3, replace(STYLE, across=2))
    places = [axes.get_position() for axes in canvas.axes if axes.get_visible()]
    assert len(places) == 3
    assert places[2].y1 < places[0].y0
    assert [axes.get_title() for axes in canvas.axes][:3] == ["accuracy"] * 3


# ---- programs --------------------------------------------------------------------------------------------------


def test_texts_are_never_more_than_texts() -> None:
    name = "'''; raise SystemExit(1)\n\"\"\" {__import__('os')} \\"
    panel = LinePanel(name, name, name, (0.0, 1.0), (0.0, 1.0), (Series(name, "#000000", (0.5,), (0.5,)),))
    script = script_of((panel,), STYLE, "data.csv")
    compile(script, "plot.py", "exec")
    (literal,) = re.findall(r"^FIGURE = .*?(?=\n\n)", script, re.S | re.M)
    known = {"__builtins__": {}, "nan": nan, "inf": inf, **vars(plain_data)}
    exec(literal, {name: known[name] for name in ("__builtins__", "nan", "inf", "LinePanel", "Series")}, known)
    assert known["FIGURE"] == without_data((panel,))


@settings(max_examples=30, deadline=None)
@given(name=st.text())
def test_any_name_is_a_literal_of_the_program_and_no_formula_of_its_data(name: str) -> None:
    figure = (LinePanel(name, name, name, (0.0, 1.0), (0.0, 1.0), (Series(name, "#000000", (0.5,), (0.5,)),)),)
    tree = ast.parse(script_of(figure, STYLE, name))
    given = {line.targets[0].id: line.value for line in tree.body if isinstance(line, ast.Assign)}
    assert ast.literal_eval(given["DATA"]) == name
    calls = [each.func.id for each in ast.walk(given["FIGURE"]) if isinstance(each, ast.Call)]
    assert calls == ["LinePanel", "Series"]
    assert [each.value for each in ast.walk(given["FIGURE"]) if isinstance(each, ast.Constant)].count(name) >= 4
    _, row = csv.reader(io.StringIO(data_of(figure), newline=""))
    assert row[2] == neutralized(" ".join(name.splitlines()))
    assert with_data(without_data(figure), data_of(figure)) == figure


def test_the_program_draws_the_same_file_with_matplotlib_alone(tmp_path: Path) -> None:
    formula = replace(LINES, title="$x^$ of 100 % _", series=())
    unknown = replace(MAP, values=((nan, nan), (nan, nan)), texts=(("", ""), ("", "")), low=nan, high=nan)
    drawn = (*FIGURE, formula, unknown)
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "plot.py").write_text(script_of(drawn, STYLE, "plot.csv"), encoding="utf-8")
    (folder / "plot.csv").write_text(data_of(drawn), encoding="utf-8")
    command = [sys.executable, "-I", "a folder/plot.py", "figure.svg"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "wina" not in re.sub("svg.hashsalt.*", "", (folder / "plot.py").read_text()), "no import of the project"
    assert (tmp_path / "figure.svg").read_bytes() == render(drawn, STYLE, "svg")
