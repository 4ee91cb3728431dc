"""Comparison with other tools on this machine: `wina worth` and `wina import`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from wina_core.analysis.comparison.worth import BATCHES, COLUMNS, WorthRow, is_on, missing_specs, table_row, worth_rows
from wina_core.cli import makers, options
from wina_core.cli.latency import time_decoding
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
Count = int | None


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
    prompt_tokens: Annotated[Count, in_timing(help="Tokens of each prompt; 64 by default.")] = None,
    new_tokens: Annotated[Count, in_timing(help="Tokens to time; 64 by default.")] = None,
    repetitions: Annotated[Count, in_timing(help="Timed repetitions; at most 5 by default.")] = None,
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
    everywhere: Annotated[bool, in_output("--everywhere", help="Also print what other machines timed.")] = False,
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
            settings = {"prompt_tokens": prompt_tokens, "new_tokens": new_tokens, "repetitions": repetitions}
            spec = DecodeSpec.model_validate(
                {
                    "model": source,
                    "rotation": configuration.rotation,
                    "method": configuration.method,
                    "calibration": CalibrationSpec() if configuration.method.needs_calibration else None,
                    # 0 % is our kernels' dense decoding, a rival of every verdict, which also needs one sequence.
                    "sparsities": tuple(dict.fromkeys((0.0, *(sparsity or (0.5,))))),
                    "batches": tuple(sorted({1, *(batch_size or BATCHES)})),
                    "budget_seconds": budget or None,
                    **{name: value for name, value in settings.items() if value is not None},
                }
            )
            _measure(store, spec, again=again, yes=yes)
        if measure:
            for spec in missing_specs(_timed_on_this_machine(_rows(store))):
                _measure(store, spec, again=False, yes=yes)
        rows = _rows(store)
    local_rows = _timed_on_this_machine(rows)
    printed = rows if everywhere else local_rows
    _show(printed, as_json, machine=everywhere)
    left_out = len(rows) - len(local_rows)
    if left_out and not everywhere:
        rest = "1 configuration" if left_out == 1 else f"{left_out:,} configurations"
        typer.echo(f"{rest} timed on other machines left out; --everywhere prints them.", err=True)
    if not printed:
        typer.echo("No decoding is timed on this machine; give a MODEL to measure it.", err=True)
    if output_path is not None:
        write_table(COLUMNS, [table_row(row) for row in printed], output_path)


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


def _show(rows: Sequence[WorthRow], as_json: bool, *, machine: bool) -> None:
    """Print the rows; all columns as JSON."""
    table: list[tuple[Any, ...]] = [table_row(row) for row in rows]
    if as_json:
        print_table(COLUMNS, table, as_json)
        return
    names = (*_PRINTED, "machine") if machine else _PRINTED
    indices = [at for at, column in enumerate(COLUMNS) if column in names]
    print_table([COLUMNS[at] for at in indices], [[row[at] for at in indices] for row in table], as_json)
    for name in sorted({row.peer.origin for row in rows if row.peer is not None}):
        typer.echo(f"peer: {name}", err=True)


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
    indices = [at for at, column in enumerate(columns) if column in _READ or at >= len(FIXED)]
    print_table([columns[at] for at in indices], [[row[at] for at in indices] for row in rows], as_json)


def _print_columns(as_json: bool) -> None:
    texts = [(name, "text", meaning) for name, meaning in TEXTS.items()]
    metrics = [(metric.column, metric.unit, metric.meaning) for metric in METRICS.values()]
    print_table(("column", "unit", "meaning"), [*texts, *metrics], as_json)
    typer.echo("A metric's error goes into a column of its name and _stderr, as kl_stderr.", err=True)
