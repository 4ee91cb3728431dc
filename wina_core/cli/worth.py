"""Comparison with other tools on this machine: `wina worth` and `wina import`."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from wina_core.analysis.comparison.worth import BATCHES, COLUMNS, WorthRow, is_on, missing_specs, table_row, worth_rows
from wina_core.cli import makers, options
from wina_core.cli.latency import spec_of, time_decoding
from wina_core.cli.makers import configuration_of
from wina_core.cli.options import in_output, in_timing, with_flags_of
from wina_core.cli.tables import counted, print_table
from wina_core.errors import WinaError
from wina_core.files.tables import check_table_file, write_table
from wina_core.records.imports import StoredImport
from wina_core.specs import CalibrationSpec, Configuration, Quantization
from wina_core.specs.latency import BUDGET_SECONDS, DecodeSpec
from wina_core.store import Store
from wina_core.store.imported.candidate import read_candidates
from wina_core.store.imported.metrics import FIXED, METRICS, import_rows
from wina_core.store.imported.named_columns import TEXTS

_PRINTED = (
    *("model", "bits", "rotation", "method", "sparsity", "tokens/s", "vs dense", "vs peer", "prompt tokens/s"),
    *("vs dense prompt", "held MB", "peak MB", "pays up to batch", "verdict", "missing"),
)
"""Columns that are printed; --json and --output-path have all."""


@with_flags_of(quantization=makers.quantization_of, configuration=configuration_of)
def worth(
    *,
    model: Annotated[
        str | None, typer.Argument(help='A folder, a Hugging Face id or "demo" to measure first; none to print alone.')
    ] = None,
    measure: Annotated[
        bool, in_timing("--measure", help="Measure what the stored timings of this machine miss.")
    ] = False,
    sparsity: options.Sparsities = None,
    budget: options.Budget = BUDGET_SECONDS,
    batch_size: Annotated[
        list[int] | None, in_timing(help="Repeatable: sequences at once; 1, 2, 4, 8 by default.")
    ] = None,
    again: options.Again = False,
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    memory: options.Memory = None,
    quantization: Quantization,
    configuration: Configuration,
    output_path: Annotated[Path | None, in_output(help="Also write the full table: .csv, .json, .md, .xlsx …")] = None,
    database: options.Database = None,
    as_json: options.Json = False,
    yes: options.Yes = False,
) -> None:
    """Print whether gating pays on this machine: a verdict, speeds, memory and batches for each timed configuration.

    With MODEL, measure a configuration first: 0 % and the sparsities, for several batches, gated against dense. Peers
    that `wina import` brought count if they are of this machine and of the same bits.
    """
    if output_path is not None:
        check_table_file(output_path)  # now, not after minutes of timing
    with Store(database) as store:
        if model is not None:
            source = makers.resolved_source(model, dtype, device, memory, quantization=quantization)
            spec = spec_of(
                DecodeSpec,
                model=source,
                rotation=configuration.rotation,
                method=configuration.method,
                calibration=CalibrationSpec() if configuration.method.needs_calibration else None,
                # 0 % is our kernels' dense decoding, a rival of every verdict, which also needs one sequence.
                sparsities=tuple(dict.fromkeys((0.0, *(sparsity or (0.5,))))),
                batches=tuple(sorted({1, *(batch_size or BATCHES)})),
                budget_seconds=budget or None,
            )
            _measure(store, spec, again=again, yes=yes)
        if measure:
            for spec in missing_specs(_timed_on_this_machine(_rows(store))):
                _measure(store, spec, again=False, yes=yes)
        rows = _rows(store)
    printed = _timed_on_this_machine(rows)
    table = [table_row(row) for row in printed]
    if as_json:
        print_table(COLUMNS, table, as_json)
    else:
        _print_named(COLUMNS, table, _PRINTED)
        for name in sorted({row.peer.origin for row in printed if row.peer is not None}):
            typer.echo(f"peer: {name}", err=True)
    if left_out := len(rows) - len(printed):
        typer.echo(f"{counted(left_out, 'configuration')} timed on other machines left out.", err=True)
    if not printed:
        typer.echo("No decoding is timed on this machine; give a MODEL to measure it.", err=True)
    if output_path is not None:
        write_table(COLUMNS, table, output_path)


def _print_named(columns: Sequence[str], rows: Sequence[Sequence[Any]], names: Collection[str]) -> None:
    """Print those columns of a table that have these names."""
    indices = [at for at, column in enumerate(columns) if column in names]
    print_table([columns[at] for at in indices], [[row[at] for at in indices] for row in rows], as_json=False)


def _rows(store: Store) -> list[WorthRow]:
    return worth_rows(store.decode_rows(), store.imports())


def _timed_on_this_machine(rows: Sequence[WorthRow]) -> list[WorthRow]:
    """Return the rows that were timed on this machine, with any number of threads."""
    if not rows:
        return []
    from wina_core.compute.latency.device import timing_environments  # which loads PyTorch

    environments = timing_environments()
    return [row for row in rows if any(is_on(row, environment) for environment in environments)]


def _measure(store: Store, spec: DecodeSpec, *, again: bool, yes: bool) -> None:
    report = time_decoding(spec, again, store, (), yes)
    typer.echo(f"{report.measured} measured, {report.stored} already stored.", err=True)
    for reason in report.skipped:
        typer.echo(f"Skipped: {reason}", err=True)


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
        _print([candidate.preview for candidate in candidates], as_json)
    numbers = [None if dry_run else store.record_import(candidate.file, candidate.model) for candidate in candidates]
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
    _print_named(columns, rows, (*_READ, *columns[len(FIXED) :]))


def _print_columns(as_json: bool) -> None:
    texts = [(name, "text", meaning) for name, meaning in TEXTS.items()]
    metrics = [(metric.column, metric.unit, metric.meaning) for metric in METRICS.values()]
    print_table(("column", "unit", "meaning"), [*texts, *metrics], as_json)
    typer.echo("A metric's error goes into a column of its name and _stderr, as kl_stderr.", err=True)
