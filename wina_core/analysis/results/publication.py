"""Tables for a paper or a page: rounded by the standard error, the best value of each metric, model and target bold."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from wina_core.analysis.results.columns import WARNING
from wina_core.analysis.results.runs import MeasureColumn
from wina_core.analysis.results.table import Codes, MetricResults, TableColumn
from wina_core.files.tables import latex_text, markdown_text
from wina_core.records.texts import UNKNOWN
from wina_core.specs import DENSE

SUFFIXES = (".tex", ".md")
"""Formats that are written by this module."""
_ARROWS = {True: "\N{UPWARDS ARROW}", False: "\N{DOWNWARDS ARROW}"}
_LATEX_ARROWS = {True: r"$\uparrow$", False: r"$\downarrow$"}
_MINUS, _ERROR = "\N{MINUS SIGN}", " ± "


class Style(NamedTuple):
    """Choices for a table in a paper."""

    caption: str = ""
    label: str = ""
    """Without caption and label LaTeX has the tabular alone."""
    bold: bool = True
    """True for the best value of each metric in bold: one for each model and target sparsity, and all that read the
    same. The dense reference does not compete."""


PLAIN_STYLE = Style()
"""Without caption and label."""


@dataclass(frozen=True)
class Publication:
    """Rows of a table in some of its columns, as texts."""

    cells: MetricResults
    rows: Codes
    """Places of the rows in their order."""
    keys: Sequence[str]
    """Columns in their order."""
    breaks: Collection[int] = ()
    """Places among `rows` before which a group begins."""
    style: Style = PLAIN_STYLE

    @cached_property
    def _columns(self) -> list[TableColumn]:
        return [self.cells[key] for key in self.keys]

    @cached_property
    def _best(self) -> list[set[int]]:
        """The rows with the best value of each column among those of their model and target sparsity."""
        method = self.cells["method"]
        dense = np.array([method.column.text(category) == DENSE.name for category in method.categories], np.bool_)
        sparse = self.rows[~dense[method.codes[self.rows]]] if len(self.rows) else self.rows
        competing: dict[tuple[int, int], list[int]] = {}
        for row in sparse.tolist() if self.style.bold else ():
            competing.setdefault((self.cells["model"].codes[row], self.cells["target"].codes[row]), []).append(row)
        return [
            {row for rows in competing.values() for row in column.best(np.array(rows))}
            if isinstance(column, MeasureColumn)
            else set()
            for column in self._columns
        ]

    # ---- LaTeX ---------------------------------------------------------------------------------------------------

    def latex(self) -> Iterator[str]:
        """Write a booktabs table line by line."""
        caption, label, _ = self.style
        floats = bool(caption or label)
        yield "% \\usepackage{booktabs}\n"
        if floats:
            yield "\\begin{table}\n\\centering\n"
            yield f"\\caption{{{_latex_caption(caption)}}}\n" if caption else ""
            yield f"\\label{{{_label(label)}}}\n" if label else ""
        alignment = "".join("r" if column.column.numeric else "l" for column in self._columns)
        yield f"\\begin{{tabular}}{{{alignment}}}\n\\toprule\n"
        yield " & ".join(map(_latex_title, self._columns)) + " \\\\\n\\midrule\n"
        for index, row in enumerate(self.rows.tolist()):
            yield "\\midrule\n" if index in self.breaks and index else ""
            yield " & ".join(self._latex_cells(row)) + " \\\\\n"
        yield "\\bottomrule\n\\end{tabular}\n"
        if floats:
            yield "\\end{table}\n"

    def _latex_cells(self, row: int) -> Iterator[str]:
        for column, best in zip(self._columns, self._best, strict=True):
            if column.column.numeric:
                yield _latex_number(_text(column, row), row in best)
            else:
                yield latex_text(_text(column, row))

    # ---- Markdown ------------------------------------------------------------------------------------------------

    def markdown(self) -> Iterator[str]:
        """Write a Markdown table line by line."""
        yield _line(markdown_text(_title(column)) for column in self._columns)
        yield _line("---:" if column.column.numeric else "---" for column in self._columns)
        for row in self.rows.tolist():
            yield _line(
                _markdown_cell(_text(column, row), row in best)
                for column, best in zip(self._columns, self._best, strict=True)
            )

    def write(self, suffix: str) -> Iterator[str]:
        return self.latex() if suffix == ".tex" else self.markdown()


def usual_caption(cells: MetricResults, rows: Codes) -> str:
    """Return a caption that names the models and says what is printed."""
    model = cells["model"]
    names = [model.column.text(model.categories[code]) for code in np.unique(model.codes[rows])] if len(rows) else []
    of = f"Results of {', '.join(names[:3])}{' and others' if len(names) > 3 else ''}" if names else "Results"
    return f"{of}: value ± standard error; the best value of each metric, model and target sparsity is bold."


def _title(column: TableColumn) -> str:
    better = column.higher_is_better if isinstance(column, MeasureColumn) else None
    return column.column.title + (f" {_ARROWS[better]}" if better is not None else "")


def _latex_title(column: TableColumn) -> str:
    better = column.higher_is_better if isinstance(column, MeasureColumn) else None
    return latex_text(column.column.title) + (f" {_LATEX_ARROWS[better]}" if better is not None else "")


def _text(column: TableColumn, row: int) -> str:
    return column.text(row).removeprefix(f"{WARNING} ")


def _latex_number(text: str, best: bool) -> str:
    if text == UNKNOWN:
        return "--"
    value, _, error = text.replace(_MINUS, "-").partition(_ERROR)
    # Only math mode has the real minus sign, \pm and \mathbf.
    if not best and not error and not value.startswith("-"):
        return latex_text(value)
    value = f"\\mathbf{{{value}}}" if best else value
    return f"${value} \\pm {error}$" if error else f"${value}$"


def _markdown_cell(text: str, best: bool) -> str:
    value, sign, error = text.partition(_ERROR)
    return f"**{value}**{sign}{error}" if best else markdown_text(text)


def _line(cells: Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _latex_caption(caption: str) -> str:
    return latex_text(caption).replace("±", "$\\pm$")


def _label(label: str) -> str:
    """Return a label of letters, digits and ":-._" alone."""
    return "".join(one if one.isalnum() or one in ":-._" else "-" for one in label)
