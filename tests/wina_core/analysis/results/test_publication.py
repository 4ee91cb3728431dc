"""Tables for a paper: parsed as LaTeX, best values bold, names escaped."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.wina_core.analysis.results.test_filter import frame
from tests.wina_core.conftest import Wina
from wina_core.analysis.results.publication import Publication, Style
from wina_core.analysis.results.runs import RunResults


def runs(*changes: dict[str, object]) -> RunResults:
    table = frame(*({"higher_is_better": True} | change for change in changes))
    return RunResults(table, np.ones(len(table), np.bool_))


def measure(run: str, value: float, method: str = "wina", **more: object) -> dict[str, object]:
    return {"run": run, "value": value, "method": method, "stderr": 0.016, "task": "a_b", "metric": "acc"} | more


def cells_of(latex: str) -> list[list[str]]:
    """Parse the rows of a booktabs table between its rules."""
    match = re.fullmatch(
        r"% .*\n\\begin{table}\n\\centering\n\\caption{.*}\n\\label{[\w:-]*}\n"
        r"\\begin{tabular}{([lr]+)}\n\\toprule\n(.*) \\\\\n\\midrule\n(.*)\\bottomrule\n\\end{tabular}\n\\end{table}\n",
        latex,
        re.DOTALL,
    )
    assert match, latex
    alignment, titles, body = match.groups()
    lines = [titles, *(line.removesuffix(" \\\\") for line in body.splitlines() if line != "\\midrule")]
    rows = [re.split(r"(?<!\\) & ", line) for line in lines]
    assert all(len(cells) == len(alignment) for cells in rows)
    return rows


def test_the_best_of_each_metric_is_bold_as_rounded_and_the_dense_model_is_none() -> None:
    table = runs(
        measure("dense", 0.9, "dense"),
        measure("one", 0.7001),
        measure("other", 0.7003),
        measure("worse", 0.6),
        measure("one", 3.5, metric="perplexity", higher_is_better=False, stderr=None),
        measure("worse", 4.25, metric="perplexity", higher_is_better=False, stderr=None),
    )
    latex = "".join(Publication(table, np.arange(4), table.usual_keys(True), style=Style("A & B", "tab:a b")).latex())
    titles, *rows = cells_of(latex)
    at = next(index for index, title in enumerate(titles) if "acc" in title)
    assert titles[at:] == ["a\\_b acc $\\uparrow$", "a\\_b perplexity $\\downarrow$"]
    assert [row[at] for row in rows] == [
        "$0.900 \\pm 0.016$",
        "$\\mathbf{0.700} \\pm 0.016$",
        "$\\mathbf{0.700} \\pm 0.016$",
        "$0.600 \\pm 0.016$",
    ]
    assert [row[at + 1] for row in rows] == ["--", "$\\mathbf{3.500}$", "--", "4.250"]
    assert "A \\& B" in latex
    assert "tab:a-b" in latex


def bold(table: RunResults) -> list[bool]:
    """Return whether each run's accuracy is bold."""
    (key,) = (key for key in table.measured_keys if key.endswith("acc"))
    lines = list(Publication(table, np.arange(len(table)), [key]).markdown())[2:]
    return ["**" in line for line in lines]


def test_runs_of_one_model_and_one_target_compete() -> None:
    table = runs(
        measure("a", 0.7, target_sparsity=0.5),
        measure("b", 0.6, "teal", target_sparsity=0.5),
        measure("c", 0.5, target_sparsity=0.65),
        measure("d", 0.4, "teal", target_sparsity=0.65),
        measure("e", 0.3, target_sparsity=0.65, model="other"),
        measure("f", 0.2, "teal", target_sparsity=0.65, model="other"),
        measure("alone", 0.9, target_sparsity=0.25),
    )
    assert bold(table) == [True, False, True, False, True, False, False]


@pytest.mark.parametrize(
    ("values", "best"),
    [((0.00121, 0.00119, 0.7), ["0.0012", "0.0012"]), ((0.00121, 0.00091, 0.7), ["0.00091"])],
)
def test_values_that_read_the_same_are_all_best(values: tuple[float, ...], best: list[str]) -> None:
    lower = {"metric": "ppl", "higher_is_better": False}
    exact = (measure(f"exact {value}", value, **(lower | {"stderr": None})) for value in values)
    table = runs(*exact, *(measure(f"{number}", 0.8, **lower) for number in range(5)))
    (cells,) = (table[key] for key in table.measured_keys)
    assert [cells.value_text(row) for row in sorted(cells.best(np.arange(len(table))))] == best


def test_groups_have_a_rule_between_them() -> None:
    table = runs(measure("one", 0.7), measure("other", 0.6))
    lines = list(Publication(table, np.arange(2), ["method"], breaks={0, 1}).latex())
    assert lines.count("\\midrule\n") == 1
    assert not any("caption" in line for line in lines)


def test_an_unknown_column_is_named_with_those_there_are(wina: Wina, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'empty.sqlite'}"
    code, _, err = wina("export", str(tmp_path / "x.tex"), "--database", database, "--column", "acc")
    assert code == 1
    assert 'no column "acc"' in err
    assert '"method"' in err
