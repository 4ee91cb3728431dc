"""`wina import`: results of other tools, marked as imported wherever they are shown."""

from pathlib import Path
from typing import Annotated

import typer

from wina_core.cli import options
from wina_core.cli.tables import counted, print_table
from wina_core.errors import WinaError
from wina_core.files.tables import check_table_file, write_table
from wina_core.records.imports import StoredImport
from wina_core.store import Store
from wina_core.store.imported.candidate import read_candidates
from wina_core.store.imported.metrics import METRICS
from wina_core.store.imported.named_columns import TEXTS
from wina_core.store.imported.table_rows import FIXED, import_rows

_READ = ("import", "name", "model", "tool", "file", "date")
"""Columns that are printed before the metrics; --json and --output-path have all."""


def import_results(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...",
            help="llama-bench's JSON, JSONL or CSV, llama-perplexity's log with --kl-divergence, lm-eval's results, or "
            "a CSV table (--columns).",
        ),
    ] = None,
    model: Annotated[
        str | None,
        options.in_model("--model", help='The workbench\'s model that was measured: a folder, an id or "demo".'),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Print what is imported.")] = False,
    remove: Annotated[
        list[int] | None, typer.Option("--remove", metavar="NUMBER", help="Repeatable: remove an imported file.")
    ] = None,
    columns: Annotated[bool, typer.Option("--columns", help="Print the columns of a CSV table and stop.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and print the points, and store nothing.")] = False,
    output_path: Annotated[
        Path | None, options.in_output(help="With --list: also write the table: .csv, .tsv, .json, .md, .tex, .xlsx.")
    ] = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Import results of llama.cpp, lm-eval or any tool, for plots and tables beside the workbench's own.

    Imported points keep file and date, are marked as imported, and enter no statistics, comparison or ranking.
    `wina export` leaves them out; --list --output-path writes them.
    """
    if columns:
        _print_columns(as_json)
        return
    if remove and (files or model or dry_run):
        raise WinaError("--remove takes numbers alone; import in a second command.")
    if not (files or listed or remove):
        raise WinaError("Name a file to import, or --list, --remove or --columns.")
    if output_path is not None:
        if not listed:
            raise WinaError("--output-path writes the table of --list; add --list.")
        check_table_file(output_path)
    with Store(database) as store:
        if remove:
            store.remove_imports(remove)
            typer.echo(f"{counted(len(set(remove)), 'import')} removed.", err=True)
        if files:
            _import(store, files, model, as_json, dry_run=dry_run)
        if listed:
            _print(store.imports(), as_json)
        if output_path is not None:
            write_table(*import_rows(store.imports()), output_path)


def _import(store: Store, files: list[Path], model: str | None, as_json: bool, *, dry_run: bool) -> None:
    """Check all files before the first is stored."""
    if model is None:
        raise WinaError("Name the workbench's model that was measured with --model.")
    candidates = read_candidates(store, files, model)
    if dry_run:
        _print([each.preview for each in candidates], as_json)
    numbers = [None if dry_run else store.record_import(each.file, each.model) for each in candidates]
    for candidate, number in zip(candidates, numbers, strict=True):
        file, done = candidate.file, "can be imported" if number is None else f"imported as number {number}"
        typer.echo(f"{file.file}: {counted(len(file.points), 'point')} of {file.tool} {done}.", err=True)
        for remark in candidate.remarks:
            typer.echo(f"{file.file}: {remark}", err=True)


def _print(imports: list[StoredImport], as_json: bool) -> None:
    columns, rows = import_rows(imports)
    if as_json:
        print_table(columns, rows, as_json)
        return
    kept = [at for at, column in enumerate(columns) if column in _READ or at >= len(FIXED)]
    print_table([columns[at] for at in kept], [[row[at] for at in kept] for row in rows], as_json)


def _print_columns(as_json: bool) -> None:
    texts = [(name, "text", meaning) for name, meaning in TEXTS.items()]
    metrics = [(metric.column, metric.unit, metric.meaning) for metric in METRICS.values()]
    print_table(("column", "unit", "meaning"), [*texts, *metrics], as_json)
    typer.echo("A metric's error goes into a column of its name and _stderr, as kl_stderr.", err=True)
