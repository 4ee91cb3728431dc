"""`wina report`: a study's results as a page."""

from pathlib import Path
from typing import Annotated

import typer

from wina_core.analysis.results.measured import DEFAULT_COUNT, SparsityKind
from wina_core.cli.arguments import options
from wina_core.cli.results import study_hash
from wina_core.files.paths import what_is_at
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.studies.expand import bind, load_study


def report(
    study: Annotated[str, typer.Argument(help="A study that was run here, by name, hash or file.")],
    output_path: Annotated[Path, options.in_output(help="The folder to write to.")] = Path("reports"),
    tables: Annotated[
        bool, options.in_output("--tables", help="Also write the tables as LaTeX, CSV, XLSX, Parquet and JSON.")
    ] = False,
    baseline: Annotated[str, typer.Option(help="Baseline configuration; TEAL or the first by default.")] = "",
    by: Annotated[
        SparsityKind, typer.Option(help="Pair and plot runs by measured sparsity (gated or net) or by target.")
    ] = DEFAULT_COUNT,
    database: options.Database = None,
) -> None:
    """Write a study's report as one HTML and one Markdown page.

    It has the study's tables in the paper's layout, the published numbers with differences and significance, plots,
    hardware, versions, and the command that repeats the study.
    """
    from wina_core.report import make_report

    with Store(database) as store:
        page = make_report(store, _stored(store, study), output_path, baseline=baseline, by=by, with_tables=tables)
    typer.echo(f"The report is {page}.", err=True)


def _stored(store: Store, name: str) -> StudySpec:
    """Return the study as last launched, with a note where its file has changed since."""
    file = load_study(Path(name)) if what_is_at(Path(name)) == "file" else None
    study = store.study_spec(study_hash(store, file.name if file else name))
    assert study is not None  # it was just listed
    if file and bind(file, {role.name: role.location for role in study.roles}) != study:
        typer.echo(f"{name} has changed since the study was run; the report is of the study as run.", err=True)
    return study
