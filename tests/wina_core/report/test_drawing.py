"""Drawn figures: files with words and vectors, and programs that draw the same files."""

import ast
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from math import nan
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wina_core.report.drawing import Figure, FigureStyle, LinePanel, MapPanel, Series, program, render

STYLE = FigureStyle(5.0, 3.0)
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


def test_the_svg_holds_curves_and_words_not_pictures() -> None:
    content = render((LINES,), STYLE, "svg", title="test plot")
    for word in ("target sparsity (%)", "acc", "teal", "bars", "paper", "dense", "test plot"):
        assert word in words(content)
    assert "accuracy" not in words(content), "a single plot has no title"
    assert b"<image" not in content
    assert b"#d55e00" in content
    assert content == render((LINES,), STYLE, "svg", title="test plot")


def test_names_are_texts_whatever_they_hold() -> None:
    name = 'a <script> & $c$ _x" \\'
    hostile = replace(LINES, title=name, x_title=name, series=(replace(LINES.series[0], name=f"_{name}"),))
    content = render((hostile, replace(MAP, title=name)), STYLE, "svg", title=name)
    assert {name, f"_{name}"} <= set(words(content))
    assert not any(element.tag.endswith("}script") for element in ElementTree.fromstring(content).iter())


def test_the_pdf_is_one_page_of_the_chosen_size_with_its_fonts() -> None:
    content = render((LINES,), STYLE, "pdf")
    assert content.startswith(b"%PDF")
    box = re.search(rb"/MediaBox \[\s*0 0 ([0-9.]+) ([0-9.]+)", content)
    assert box is not None
    assert [float(side) for side in box.groups()] == pytest.approx([5 * 72, 3 * 72], abs=1)
    assert b"/FontFile" in content
    assert b"/Subtype /Image" not in content


# ---- programs --------------------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(name=st.text())
def test_any_name_is_a_literal_of_the_program(name: str) -> None:
    panel = LinePanel(name, name, name, (0.0, 1.0), (0.0, 1.0), (Series(name, "#000000", (0.5,), (0.5,)),))
    tree = ast.parse(program((panel,), STYLE))
    literals = {line.targets[0].id: line.value for line in tree.body if isinstance(line, ast.Assign)}  # type: ignore[attr-defined]
    calls = [node.func.id for node in ast.walk(literals["FIGURE"]) if isinstance(node, ast.Call)]  # type: ignore[attr-defined]
    assert calls == ["LinePanel", "Series"]
    namespace = {"LinePanel": LinePanel, "Series": Series}
    assert eval(compile(ast.Expression(literals["FIGURE"]), "plot.py", "eval"), {}, namespace) == (panel,)


def test_the_program_draws_the_same_file_with_matplotlib_alone(tmp_path: Path) -> None:
    formula = replace(LINES, title="$x^$ of 100 % _", series=())
    unknown = replace(MAP, values=((nan, nan), (nan, nan)), texts=(("", ""), ("", "")), low=nan, high=nan)
    drawn = (*FIGURE, formula, unknown)
    (tmp_path / "plot.py").write_text(program(drawn, STYLE), encoding="utf-8")
    command = [sys.executable, "-I", "plot.py", "figure.svg"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "figure.svg").read_bytes() == render(drawn, STYLE, "svg")
    assert not re.search(r"^\s*(import|from) wina", program(drawn, STYLE), re.MULTILINE)
