"""A study's report: one self-contained HTML page, the same as Markdown, and its tables for other programs."""

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from pathlib import Path

from wina_core.analysis.results.measured import DEFAULT_COUNT, SparsityKind
from wina_core.errors import WinaError
from wina_core.files.tables import write_atomically, write_table
from wina_core.report.document import Document, write_up
from wina_core.report.layout import MISSES, ReportCell, ReportTable
from wina_core.report.rendering import render_template
from wina_core.report.reproduce import shareable
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.studies.expand import save_study_file

_TABLE_SUFFIXES = (".tex", ".csv", ".xlsx", ".parquet", ".json")


def make_report(
    store: Store,
    study: StudySpec,
    folder: Path,
    *,
    baseline: str = "",
    by: SparsityKind = DEFAULT_COUNT,
    with_tables: bool = False,
) -> Path:
    """Write NAME.html, NAME.md with plots as SVG, and NAME.toml, which reproduces the study; return the HTML's path.

    `with_tables` adds the tables as LaTeX, CSV, XLSX, Parquet and JSON. `baseline` is the configuration to compare the
    others with, by default as `usual_baseline`; `by` is the sparsity that pairs runs and is on the plots' axes. Blocks
    for some seconds. Raises WinaError for a study that was never launched here, an unknown baseline, and files that
    cannot be written.
    """
    name = file_name(study)
    document = write_up(store, study, f"{name}.toml", baseline, by)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WinaError(f"Cannot create the folder {folder} ({error.strerror}); choose another.") from error
    for figure in document.figures:
        write_atomically(folder / f"{name}-{figure.name}.svg", figure.svg)
    save_study_file(shareable(study), folder / f"{name}.toml")
    write_atomically(folder / f"{name}.md", markdown(document, name).encode())
    if with_tables:
        write_tables(document, folder, name)
    page = folder / f"{name}.html"
    write_atomically(page, html(document).encode())
    return page


def file_name(study: StudySpec) -> str:
    """Return the study's name as a file's: letters, digits and hyphens, with a part of its hash where it changed."""
    plain = re.sub(r"[^a-z0-9]+", "-", study.name.lower()).strip("-")[:80]
    return plain if plain == study.name else f"{plain or 'study'}-{study.content_hash()[:8]}"


def html(document: Document) -> str:
    """Return the self-contained page, without scripts; figures are images within it."""
    images = [b64encode(figure.svg).decode() for figure in document.figures]
    return render_template("page.html.j2", document=document, images=images)


def markdown(document: Document, name: str) -> str:
    """Return the page as Markdown; `name` begins the names of its figures' files."""
    return render_template("page.md.j2", document=document, name=name)


# ---- tables for other programs ---------------------------------------------------------------------------------


def write_tables(document: Document, folder: Path, name: str, suffixes: Sequence[str] = _TABLE_SUFFIXES) -> list[Path]:
    """Write every table of results in each suffix's format, such as NAME-table-1.csv, and return the paths.

    LaTeX has the page's layout, with published numbers small and in brackets. The others have every digit, and columns
    for standard errors and published numbers. Raises WinaError as `write_table`.
    """
    paths = []
    for place, table in enumerate(document.tables, 1):
        for suffix in suffixes:
            path = folder / f"{name}-table-{place}{suffix}"
            if suffix == ".tex":
                write_atomically(path, latex(table).encode())
            else:
                write_table(*_flat(table), path)
            paths.append(path)
    return paths


def latex(table: ReportTable) -> str:
    r"""Return a tabular with booktabs' rules, which needs \usepackage{booktabs}."""
    return render_template("table.tex.j2", table=table)


def _flat(table: ReportTable) -> tuple[list[str], list[list[object]]]:
    """Return columns and rows with every number in a cell of its own, without the marks of labels."""
    fields: dict[str, Callable[[ReportCell], float | None]] = {
        "": lambda cell: None if cell.value is None else cell.value.value,
        " stderr": lambda cell: None if cell.value is None else cell.value.stderr,
    }
    if table.has_paper:
        fields |= {" paper": lambda cell: cell.paper, " difference": lambda cell: cell.difference}
    columns = [*table.heads, *(f"{column}{suffix}" for column in table.columns for suffix in fields)]
    rows: list[list[object]] = [
        [
            *(label.removesuffix(MISSES) for label in row.labels),
            *(read(cell) for cell in row.cells for read in fields.values()),
        ]
        for row in table.rows
    ]
    return columns, rows
