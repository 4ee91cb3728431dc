"""`wina latency`: timings of sparse products, and of a gated model's decoding."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from wina_core.api.studies import sweep_products, time_points
from wina_core.cli import makers, options
from wina_core.cli.makers import confirm_products, machines_of
from wina_core.cli.options import in_gate, in_model, in_output, in_timing, with_flags_of
from wina_core.cli.tables import print_table
from wina_core.errors import WinaError
from wina_core.files.tables import check_table_file, write_table
from wina_core.jobs import DecodeJob
from wina_core.records import SweepReport
from wina_core.records.texts import percent_apart
from wina_core.specs import CalibrationSpec, Quantization, RotationSpec, Selection, Spec
from wina_core.specs.latency import BUDGET_SECONDS, PRESETS, STEADY, DecodeSpec, LatencySpec, parse_shape, preset
from wina_core.store import DecodeRow, LatencyRow, Store

COLUMNS = (
    *("op", "shape", "batch", "dtype", "method", "sparsity", "backend"),
    *("median ms", "p10 ms", "p90 ms", "GB/s", "vs PyTorch dense", "vs best dense", "best dense", "of bandwidth %"),
    "stable",
)
DECODE_COLUMNS = (
    *("model", "rotation", "method", "sparsity", "measured", "batch"),
    *("tokens/s", "p10 tokens/s", "p90 tokens/s", "dense tokens/s", "vs PyTorch dense", "vs best dense", "stable"),
    *("prompt tokens/s", "dense prompt tokens/s", "held MB", "peak MB", "turns", "new tokens", "decoder"),
)
Texts = list[str] | None
Count = int | None


@with_flags_of(quantization=makers.quantization_of, rotation=makers.rotation_spec)
def latency(
    *,
    model: Annotated[str | None, typer.Argument(help='With --decode: a folder, a Hugging Face id, or "demo".')] = None,
    decode: Annotated[bool, in_timing("--decode", help="Time a model's decoding instead of single products.")] = False,
    presets: Annotated[Texts, in_timing("--preset", help=f"Repeatable: shapes of {', '.join(PRESETS)}.")] = None,
    listed: Annotated[bool, in_timing("--list", help="Print the presets' shapes and stop.")] = False,
    shape: Annotated[Texts, in_timing(help="Repeatable: outputs x inputs, such as 5120x17920; two by default.")] = None,
    batch_size: Annotated[
        list[int] | None,
        in_timing(help="Repeatable: rows of the input; 1, 4, 16, 64, 256 by default. With --decode: sequences; 1."),
    ] = None,
    backend: Annotated[
        Texts, in_timing(help="Repeatable: auto, dispatched, native, triton, reference; auto by default.")
    ] = None,
    dense: Annotated[
        Texts,
        in_timing(
            help="Repeatable: dense products besides PyTorch's: auto (our kernel at 0 %), torch-int8, int8, int4, or "
            "none; all by default."
        ),
    ] = None,
    prompt_tokens: Annotated[Count, in_timing(help="With --decode: tokens before the timed ones; 64.")] = None,
    new_tokens: Annotated[Count, in_timing(help="With --decode: tokens to time; 64 by default.")] = None,
    repetitions: Annotated[
        Count,
        in_timing(help="Timed repetitions; 20 by default, with --decode at most 5, as many as the budget allows."),
    ] = None,
    budget: options.Budget = BUDGET_SECONDS,
    again: options.Again = False,
    dtype: Annotated[
        Texts, in_model(help="Repeatable: float32, bfloat16, float16; bfloat16 or the model's own by default.")
    ] = None,
    device: options.Device = "auto",
    memory: options.Memory = None,
    quantization: Quantization,
    method: Annotated[
        Texts, in_gate(help="Repeatable: dense, teal, wina, rsparse; dense and wina by default; one with --decode.")
    ] = None,
    selection: Annotated[
        Selection | None, in_gate(help="Products: threshold (default) or topk. With --decode any; topk by default.")
    ] = None,
    masks: options.Masks = "separate",
    sparsity: Annotated[
        list[float] | None,
        in_gate(help="Repeatable: fraction to drop; 0, 0.25, 0.4, 0.5, 0.65, or 0, 0.5 with --decode."),
    ] = None,
    rotation: RotationSpec,
    output_path: Annotated[
        Path | None, in_output(help="Also write the full table: .csv, .tsv, .json, .md or .tex.")
    ] = None,
    yes: options.Yes = False,
    machine: options.Machines = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Time sparse products on cold weights against dense products (PyTorch's, our kernel at 0 %, INT8 and INT4) and
    the memory bandwidth.

    With MODEL --decode, time a gated model's greedy decoding against the dense model's.
    """
    if output_path is not None:
        check_table_file(output_path)  # now, not after minutes of timing
    if listed:
        offered = [(name, operation.op, operation.label) for name, shapes in PRESETS.items() for operation in shapes]
        print_table(("preset", "operations", "outputs x inputs"), offered, as_json)
        return
    if decode:
        if model is None:
            raise WinaError('--decode needs a model; name a folder, a Hugging Face id or "demo".')
        if presets or shape or backend or dense:
            raise WinaError(
                "A model has its own shapes; leave out --preset, --shape, --backend and --dense, or --decode."
            )
        if repeated := [flag for flag, values in (("--method", method), ("--dtype", dtype)) if len(values or ()) > 1]:
            raise WinaError(f"With --decode, {repeated[0]} takes one value; run the command once for each.")
        held: Any = (dtype or ["auto"])[0]  # checked by the spec
        chosen = makers.method_spec(name=(method or ["wina"])[0], selection=selection or "topk", masks=masks)
        spec = spec_of(
            DecodeSpec,
            model=makers.resolved_source(model, held, device, memory, quantization=quantization),
            rotation=rotation,
            method=chosen,
            calibration=CalibrationSpec() if chosen.needs_calibration else None,
            sparsities=sparsity or [0.0, 0.5],
            batches=batch_size,
            repetitions=repetitions,
            prompt_tokens=prompt_tokens,
            new_tokens=new_tokens,
            budget_seconds=budget or None,
        )
        with Store(database) as store:
            report = time_decoding(spec, again, store, machines_of(machine), yes)
            rows = store.decode_rows(report.environment.key, report.points)
        show_timings(report, rows, output_path, as_json=as_json, decoded=True)
        return
    if model is not None:
        raise WinaError(f'Only decoding is timed on a model; add --decode, or give shapes instead of "{model}".')
    of_models = not rotation.is_identity, quantization != "none", masks != "separate", prompt_tokens, new_tokens, memory
    if any(of_models) or budget != BUDGET_SECONDS:
        raise WinaError(
            "Single products have no rotation, quantization, shared masks, prompt, new tokens, memory limit or time "
            "budget; leave those out, or add --decode."
        )
    shapes = [*(operation for name in presets or () for operation in preset(name)), *map(parse_shape, shape or ())]
    sweep = spec_of(
        LatencySpec,
        shapes=shapes or PRESETS["paper"],
        device=device,
        batches=batch_size,
        dtypes=dtype,
        methods=method,
        selections=[selection] if selection else None,
        sparsities=sparsity,
        backends=backend,
        repetitions=repetitions,
        dense_products=[] if dense == ["none"] else dense,
    )
    with Store(database) as store:
        timed = sweep_products(sweep, again, store, machines=machines_of(machine))
    show_timings(*timed, output_path, as_json=as_json)


def spec_of(kind: type[Spec], **settings: Any) -> Any:
    """Return a spec of settings, of which those that are None have its defaults."""
    return kind.model_validate({name: value for name, value in settings.items() if value is not None})


def time_decoding(spec: DecodeSpec, again: bool, store: Store, machines: tuple[str, ...], yes: bool) -> SweepReport:
    """Time the points of a model's decoding that are not stored for this machine, or `again` all."""
    job = DecodeJob(spec=spec, stored={} if again else store.measured_points(spec.hashes()))
    if not any(spec.hashes() <= set(points) for points in job.stored.values()):
        confirm_products(job, machines, yes)
    return time_points(job, store, machines=machines)


def show_timings(
    report: SweepReport,
    rows: Sequence[LatencyRow] | Sequence[DecodeRow],
    export: Path | None = None,
    *,
    as_json: bool,
    decoded: bool = False,
) -> None:
    """Print timed products, or `decoded` ones, for reading or all columns as JSON, and export all columns.

    Remarks go to stderr.
    """
    fields, cells = (DecodeRow if decoded else LatencyRow).COLUMNS, [row.cells for row in rows]
    if as_json:
        print_table(fields, cells, as_json)
    else:
        lines = [_decode_line(row) if isinstance(row, DecodeRow) else _line(row) for row in rows]
        print_table(DECODE_COLUMNS if decoded else COLUMNS, lines, as_json)
    bandwidth = "" if report.bandwidth is None else f"; memory bandwidth {report.bandwidth:.1f} GB/s"
    where = f"{report.environment.device}, {report.environment.hardware}"
    typer.echo(f"{report.measured} measured, {report.stored} already stored, on {where}{bandwidth}.", err=True)
    for reason in report.skipped:
        typer.echo(f"Skipped: {reason}", err=True)
    if unstable := sum(not row.stable for row in rows):
        typer.echo(
            f"{unstable} of {len(rows)} points are unstable: their runs, or the dense ones beside them, disagree by "
            f"more than {percent_apart(STEADY)}. Run nothing else meanwhile, and measure "
            "them again with --recompute.",
            err=True,
        )
    if export is not None:
        write_table(fields, cells, export)


def _line(row: LatencyRow) -> tuple[Any, ...]:
    record, point = row.record, row.record.point
    method = f"{point.method} (top k)" if point.selection == "topk" else point.method
    return (
        *(record.op, point.shape.label, point.batch, point.dtype, method, point.sparsity, point.backend),
        *(record.median_ms, record.p10_ms, record.p90_ms, record.gigabytes_per_second, record.speedup),
        *(row.best_speedup, row.best_dense, 100 * record.roofline, _stability(row)),
    )


def _decode_line(row: DecodeRow) -> tuple[Any, ...]:
    record, point = row.record, row.record.point
    return (
        *(row.model, row.rotation, row.method, point.sparsity, record.measured_sparsity, point.batch),
        *(record.tokens_per_second, record.p10, record.p90, record.dense_tokens_per_second, record.speedup),
        *(row.best_speedup, _stability(row)),
        *(record.prefill_tokens_per_second, record.dense_prefill_tokens_per_second),
        *(None if size is None else size / 1e6 for size in (record.held_bytes, record.peak_bytes)),
        *(record.turns, record.timed_tokens, record.decoder),
    )


def _stability(row: LatencyRow | DecodeRow) -> str:
    """Return "yes", or what makes the point unstable: disagreement of its runs, or of those of the dense model."""
    ratios = {"runs": row.record.spread, "dense runs": row.record.dense_spread, "dense drift": row.drift}
    name, ratio = max(ratios.items(), key=lambda item: item[1])
    return "yes" if row.stable else f"no: {name} {percent_apart(ratio)}"
