"""A study's report: one self-contained HTML page, the same as Markdown, and its tables for other programs."""

import re
from pathlib import Path

from wina_core.analysis.results.measured import DEFAULT_COUNT, SparsityKind
from wina_core.errors import WinaError
from wina_core.files.tables import write_atomically
from wina_core.report.document import Document, write_up
from wina_core.report.reproduce import shareable
from wina_core.report.writing import html, markdown, write_tables
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.studies.expand import save_study_file

__all__ = ["Document", "make_report", "write_tables", "write_up"]


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
    images = []
    for figure in document.figures:
        images.append(f"{name}-{figure.name}.svg")
        write_atomically(folder / images[-1], _standing_alone(figure.svg).encode())
    save_study_file(shareable(study), folder / f"{name}.toml")
    write_atomically(folder / f"{name}.md", markdown(document, images).encode())
    if with_tables:
        write_tables(document, folder, name)
    page = folder / f"{name}.html"
    write_atomically(page, html(document).encode())
    return page


def file_name(study: StudySpec) -> str:
    """Return the study's name as a file's: letters, digits and hyphens, with a part of its hash where it changed."""
    plain = re.sub(r"[^a-z0-9]+", "-", study.name.lower()).strip("-")[:80]
    return plain if plain == study.name else f"{plain or 'study'}-{study.content_hash()[:8]}"


def _standing_alone(svg: str) -> str:
    """Return an inline plot as a file of its own, dark on white."""
    namespaces = 'xmlns:xlink="http://www.w3.org/1999/xlink"'
    svg = svg if namespaces in svg else svg.replace("<svg", f"<svg {namespaces}", 1)
    return svg.replace("<svg", '<svg style="background: #ffffff; color: #1b1f24"', 1)
