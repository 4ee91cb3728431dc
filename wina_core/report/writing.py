"""A report as one HTML page and one Markdown page, and its tables for other programs."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from wina_core.files.markup import latex_text
from wina_core.files.tables import write_atomically, write_table
from wina_core.report.document import Document
from wina_core.report.formats import AGREES, DIFFERS, number, ours, papers
from wina_core.report.layout import ABSENT, MISSES, Cell, Table
from wina_core.report.plain import Plain

TABLE_SUFFIXES = (".tex", ".csv", ".xlsx", ".parquet", ".json")
_TEMPLATE = Path(__file__).with_name("page.html.j2")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def html(document: Document) -> str:
    """Return the self-contained page, without scripts, and with all names escaped."""
    from jinja2 import Environment  # only for reports

    template = Environment(autoescape=True, trim_blocks=True).from_string(_TEMPLATE.read_text(encoding="utf-8"))
    functions: dict[str, Callable[[Cell], str]] = {"ours": ours, "papers": papers, "error": _error}
    marks = {"absent": ABSENT, "agrees": AGREES, "differs": DIFFERS}
    return template.render(**vars(document), **functions, **marks)


def _error(cell: Cell) -> str:
    """Write the standard error of a value that has one."""
    assert cell.value is not None
    assert cell.value.stderr is not None
    return number(cell.value.stderr, cell.value.metric)


# ---- Markdown --------------------------------------------------------------------------------------------------


def markdown(document: Document, images: Sequence[str]) -> str:
    """Return the page as Markdown; `images` are the files of its plots in their order."""
    parts = [f"# {_text(document.title)}", _text(document.description)]
    parts += [f"> {_text(warning)}" for warning in document.warnings]
    parts.append("\n".join(f"- **{name}:** {_text(value)}" for name, value in document.summary))
    parts += [f"To reproduce it (`{document.study_file}` beside this page is the study):", f"    {document.command}"]
    parts.append(_text(document.command_note))
    if document.tables:
        beside = (
            f" Ours, then in brackets the published number, ours minus it, and {AGREES} where it lies within ours' "
            f"95 % interval, {DIFFERS} where not; neither for a replaced model, a part of the tasks, or fewer than 30 "
            "documents."
            if document.published
            else ""
        )
        parts += [
            "## Results",
            f"Fractions are in percent; the best of each target is bold; ± is a deviation over seeds. "
            f"{document.measured_note}{beside}",
        ]
        parts += [
            part
            for table in document.tables
            for part in (f"### {_text(table.title)}", _markdown_table(table), _text(table.footnote))
        ]
    parts += ["## Latency"] if document.latency else []
    parts += [part for table in document.latency for part in _plain(table)]
    parts += ["## Will it pay?", *_plain(document.worth)] if document.worth else []
    parts += ["## Results of other tools", *_plain(document.imported)] if document.imported else []
    parts += ["## Plots"] if document.figures else []
    for figure, image in zip(document.figures, images, strict=True):
        parts += [f"![{_text(figure.caption)}]({image})", _text(f"{figure.title}. {figure.caption}")]
    if document.contrasts and document.contrast_details:
        parts += ["## Significance", _text(document.contrast_note), *_plain(document.contrasts)]
        parts += _plain(document.contrast_details)
    parts += [*(["## Failures", *_plain(document.failures)] if document.failures else []), "## Appendix"]
    parts += _plain(document.environments)
    return "\n\n".join(part for part in parts if part) + "\n"


def _text(text: str) -> str:
    """Escape a text for Markdown, in one line."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def _lines(columns: Iterable[str], rows: Iterable[Sequence[str]], labels: int) -> str:
    columns = list(columns)
    rule = ["---"] * labels + ["---:"] * (len(columns) - labels)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows))


def _plain(table: Plain) -> list[str]:
    rows = [[_text(cell) for cell in row] for row in table.rows]
    return [f"### {_text(table.title)}", _lines(map(_text, table.columns), rows, len(table.columns))]


def _markdown_table(table: Table) -> str:
    def cell(each: Cell) -> str:
        text = f"**{ours(each)}**" if each.best else ours(each)
        return f"{text} ({papers(each)})" if papers(each) else text

    rows = [[*map(_text, row.labels), *map(cell, row.cells)] for row in table.rows]
    return _lines(map(_text, (*table.heads, *table.columns)), rows, len(table.heads))


# ---- tables for other programs ---------------------------------------------------------------------------------


def write_tables(document: Document, folder: Path, name: str, suffixes: Sequence[str] = TABLE_SUFFIXES) -> list[Path]:
    """Write every table of results in each suffix's format, such as NAME-table-1.csv, and return the paths.

    LaTeX has the page's layout, with published numbers small and in brackets. The others have every digit, and columns
    for standard errors and published numbers. Raises WinaError as `write_table`.
    """
    written = []
    for place, table in enumerate(document.tables, 1):
        for suffix in suffixes:
            path = folder / f"{name}-table-{place}{suffix}"
            if suffix == ".tex":
                write_atomically(path, latex(table).encode())
            else:
                write_table(*flat(table), path)
            written.append(path)
    return written


def flat(table: Table) -> tuple[list[str], list[list[object]]]:
    """Return columns and rows with every number in a cell of its own, without the marks of labels."""
    columns = list(table.heads)
    kinds: list[tuple[str, Callable[[Cell], float | None]]] = [
        ("", lambda cell: None if cell.value is None else cell.value.value),
        (" stderr", lambda cell: None if cell.value is None else cell.value.stderr),
    ]
    if table.has_paper:
        kinds += [(" paper", lambda cell: cell.paper), (" difference", lambda cell: cell.difference)]
    columns += [f"{column}{kind}" for column in table.columns for kind, _ in kinds]
    rows: list[list[object]] = [
        [
            *(label.removesuffix(MISSES) for label in row.labels),
            *(read(cell) for cell in row.cells for _, read in kinds),
        ]
        for row in table.rows
    ]
    return columns, rows


def latex(table: Table) -> str:
    r"""Return a tabular with booktabs' rules, which needs \usepackage{booktabs}."""

    def text(plain: str) -> str:
        escaped = latex_text(plain)
        return escaped.replace("±", r"$\pm$").replace(MISSES, r"$\dagger$").replace(ABSENT, "--")

    def cell(each: Cell) -> str:
        own = rf"\textbf{{{text(ours(each))}}}" if each.best else text(ours(each))
        return own if each.paper is None else rf"{own} {{\scriptsize({each.paper:.2f})}}"

    def line(cells: Iterable[str]) -> str:
        return " & ".join(cells) + r" \\"

    parts = [rf"\begin{{tabular}}{{{'l' * len(table.heads)}{'c' * len(table.columns)}}}", r"\toprule"]
    parts += [line(map(latex_text, (*table.heads, *table.columns))), r"\midrule"]
    for place, row in enumerate(table.rows):
        parts += [r"\midrule"] if row.begins and place else []
        parts.append(line([*map(text, row.labels), *map(cell, row.cells)]))
    parts.append(r"\bottomrule")
    if table.footnote:
        width = len(table.heads) + len(table.columns)
        parts.append(rf"\multicolumn{{{width}}}{{l}}{{\footnotesize {text(table.footnote)}}} \\")
    return "\n".join([f"% {latex_text(table.title)}", *parts, r"\end{tabular}"]) + "\n"
