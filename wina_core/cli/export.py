"""`wina export` and `wina report`: stored results as a file, a study's results as a page.

The long table's columns are the fields of `store.rows.MetricRow`; `analysis.results.runs` chooses the wide one's.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wina_core.analysis.results.measured import DEFAULT_COUNT, SparsityKind
from wina_core.api.stored import filtered_frame, filtered_table, metric_filter, study_hash
from wina_core.cli import options
from wina_core.cli.results import (
    Filter,
    Methods,
    Metrics,
    Rotations,
    Study,
    Tasks,
)
from wina_core.errors import WinaError
from wina_core.files.paths import what_is_at
from wina_core.files.tables import BATCH, FORMATS, check_table_file, write_lines, write_table
from wina_core.specs.studies import StudySpec
from wina_core.store import MetricRow, Store
from wina_core.store.metric_frames import metric_rows_of
from wina_core.studies.expand import bind, load_study

if TYPE_CHECKING:  # pandas takes a third of a second to import
    import pandas as pd

    from wina_core.analysis.results.table import Mask, MetricResults


def export(
    file: Annotated[Path, typer.Argument(help=f"The file; its suffix chooses the format: {', '.join(FORMATS)}.")],
    study: Study = None,
    method: Methods = None,
    rotation: Rotations = None,
    task: Tasks = None,
    metric: Metrics = None,
    line: Filter = "",
    wide: Annotated[
        bool | None,
        options.in_output(
            "--wide/--long",
            help="One line per run with metrics as columns, or one per metric with all fields. LaTeX and Markdown are "
            "wide, other formats long by default.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        options.in_output(
            "--column",
            help='Repeatable: only these columns of a wide table, in this order, as "method" or "arc_easy acc_norm".',
        ),
    ] = None,
    caption: Annotated[str | None, options.in_output("--caption", help="Caption of a LaTeX table.")] = None,
    label: Annotated[str, options.in_output("--label", help="Label of a LaTeX table.")] = "tab:results",
    database: options.Database = None,
) -> None:
    """Export stored results to a file.

    Imported points are left out; `wina import --list --output-path` writes them.

    One line per metric with every digit, or with --wide one per run. LaTeX and Markdown are made to be read: rounded by
    the standard error, the best value of each metric bold.
    """
    suffix = file.suffix.lower()
    check_table_file(file)
    readable = suffix in (".tex", ".md")
    wide = readable if wide is None else wide
    if columns and not wide:
        raise WinaError("--column chooses among the columns of a wide table; add --wide.")
    with Store(database) as store:
        chosen = metric_filter(store, study, method, rotation, task, metric)
        if wide:
            table, passing = filtered_table(store, chosen, line)
            count, noun = _write_runs(table, passing, file, columns, caption, label), "runs"
        else:
            rows = ExportedRows(filtered_frame(store, chosen, line))
            write_table((*MetricRow._fields, "warning"), rows, file)
            count, noun = len(rows), "metrics"
    typer.echo(f"{count} {noun} written to {file}.", err=True)


def _write_runs(
    table: "MetricResults", passing: "Mask", file: Path, titles: list[str] | None, caption: str | None, label: str
) -> int:
    """Write one line per run and return their number."""
    import numpy as np  # which loads in a tenth of a second

    from wina_core.analysis.results.publication import SUFFIXES, Publication, Style, usual_caption
    from wina_core.analysis.results.runs import RunResults, with_error_columns
    from wina_core.analysis.results.table import TableRows

    runs, suffix = RunResults(table, passing), file.suffix.lower()
    keys, rows = runs.keys_of(titles) if titles else runs.usual_keys(suffix in SUFFIXES), np.arange(len(runs))
    if suffix in SUFFIXES:
        caption = usual_caption(runs, rows) if caption is None else caption
        write_lines(Publication(runs, rows, keys, style=Style(caption, label)).write(suffix), file)
    else:
        columns = with_error_columns([runs[key] for key in keys])
        write_table([cells.column.title for cells in columns], TableRows(columns, rows), file)
    return len(runs)


class ExportedRows:
    """Rows of a frame with their warnings, made a batch at a time: a million of them take gigabytes."""

    def __init__(self, frame: "pd.DataFrame") -> None:
        self._frame = frame

    def __len__(self) -> int:
        return len(self._frame)

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        for start in range(0, len(self), BATCH):
            for row in metric_rows_of(self._frame.iloc[start : start + BATCH]):
                yield *row, row.warning


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
    from wina_core.report.document import make_report

    with Store(database) as store:
        page = make_report(store, _stored(store, study), output_path, baseline=baseline, by=by, with_tables=tables)
    typer.echo(f"The report is {page}.", err=True)


def _stored(store: Store, name: str) -> StudySpec:
    """Return the study as last launched, with a note where its file has changed since."""
    file = load_study(Path(name)) if what_is_at(Path(name)) == "file" else None
    spec = store.study_spec(study_hash(store, file.name if file else name))
    assert spec is not None  # it was just listed
    if file and bind(file, {role.name: role.location for role in spec.roles}) != spec:
        typer.echo(f"{name} has changed since the study was run; the report is of the study as run.", err=True)
    return spec
