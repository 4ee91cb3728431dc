"""`wina export-model` and `wina export-gguf`: models as folders and files of other programs."""

from pathlib import Path
from typing import Annotated

import typer

from wina_core.api.stored import stored_run
from wina_core.cli import makers, options
from wina_core.cli.makers import IN_MEMORY, combine_on, confirm_and_run
from wina_core.cli.options import with_flags_of
from wina_core.cli.results import LISTED
from wina_core.cli.tables import print_pairs
from wina_core.errors import WinaError
from wina_core.files.hardware import allow_memory, file_size
from wina_core.files.paths import find_converter
from wina_core.jobs import ExportGgufJob
from wina_core.records import ExportRecord, GgufRecord
from wina_core.records.plans import GgufType
from wina_core.report.model_card import export_job, sparse_run
from wina_core.specs import CalibrationSpec, MethodSpec, ModelSource, Quantization, RotationSpec, TextSpec
from wina_core.specs.presets import check_uniform
from wina_core.store import Store

_BESIDE_RUN = ("folder", "run", "memory", "database", "yes", "as_json")
"""Parameters that a stored run leaves open."""


@with_flags_of(quantization=makers.quantization_of, method=makers.method_spec, rotation=makers.rotation_spec)
def export_model(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    *,
    run: Annotated[
        str | None,
        typer.Option("--run", help="Beginning of the hash of a stored run, instead of a model and its gates."),
    ] = None,
    model: options.ModelOption = "demo",
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    memory: options.Memory = None,
    quantization: Quantization,
    method: MethodSpec,
    rotation: RotationSpec,
    preset: options.Preset = None,
    sparsity: options.Sparsities = None,
    plan: options.Plans = None,
    calibration_text: options.CalibrationText = options.CALIBRATION_TEXT.source,
    calibration_tokens: options.CalibrationTokens = options.CALIBRATION_TEXT.tokens,
    thresholds: options.Thresholds = "gated",
    dense_prefix: options.DensePrefix = 0.0,
    machine: options.Machines = None,
    database: options.Database = None,
    yes: options.Yes = False,
    as_json: options.Json = False,
) -> None:
    """Write a gated model, with rotation, bits and a model card, to a folder that transformers loads after `import
    wina_core.hf`."""
    with Store(database) as store:
        if run is not None:
            _check_alone(context)
            allow_memory(memory)
            spec = stored_run(store, run, LISTED)
        else:
            configuration = combine_on(calibration_text, context, method, rotation, preset)
            check_uniform(configuration, plan or ())
            plans, quantization = makers.gate_plans(plan or (), sparsity, quantization)
            if len(plans) != 1:
                raise WinaError("A folder holds one sparse model; give one sparsity or one plan.")
            source = makers.resolved_source(model, dtype, device, memory, quantization=quantization)
            text = TextSpec(source=calibration_text, tokens=calibration_tokens)
            calibration = CalibrationSpec(text=text, thresholds=thresholds)
            spec = sparse_run(source, configuration, plans[0], calibration, dense_prefix)
        job = export_job(store, spec, folder)
    record = confirm_and_run(job, ExportRecord, machine, yes, database)
    if as_json:
        typer.echo(record.model_dump_json(indent=1))
        return
    print_pairs({"saved in": record.folder, "size": file_size(record.bytes)})
    typer.echo("Load it with transformers after `import wina_core.hf`.", err=True)


def _check_alone(context: typer.Context) -> None:
    """Raise WinaError for flags of a model or its gates, which a stored run has already."""
    refused = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name not in _BESIDE_RUN
        and (source := context.get_parameter_source(parameter.name or ""))
        and source.name == "COMMANDLINE"
    ]
    if refused:
        raise WinaError(f"A stored run has its own model and gates; leave out {', '.join(refused)}, or --run.")


def export_gguf(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help='A folder of `wina rotate`, any model, or "demo".')],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new GGUF file.")],
    converter: Annotated[
        Path | None,
        typer.Option(help="llama.cpp's folder or its convert_hf_to_gguf.py; else LLAMA_CPP's, or the PATH's."),
    ] = None,
    outtype: Annotated[
        GgufType, typer.Option(help="Type of the weights; auto: the 16-bit one nearest to the stored one.")
    ] = "auto",
    text: Annotated[str, typer.Option(help='Text that checks the file: a file, or "demo:NAME".')] = "demo:heldout",
    memory: options.Memory = None,
    as_json: options.Json = False,
) -> None:
    """Write a dense model, rotated without shortcuts or not at all, as a GGUF file by llama.cpp's own converter.

    With the optional extra `peers`, its perplexity in llama.cpp is compared with the folder's in transformers.
    """
    allow_memory(memory)
    job = ExportGgufJob(
        model=ModelSource(location=folder),
        file=str(file.absolute()),
        converter=str(find_converter(converter)),
        outtype=outtype,
        text=text,
    )
    record = confirm_and_run(job, GgufRecord, None, True, IN_MEMORY)
    if as_json:
        typer.echo(record.model_dump_json(indent=1))
        return
    perplexity = record.perplexity
    print_pairs({"saved in": record.file, "size": file_size(record.bytes)})
    if perplexity is None:
        typer.echo("Not checked in llama.cpp: the optional extra `peers` is not installed.", err=True)
        return
    print_pairs(
        {
            f"perplexity of {perplexity.tokens} tokens of {perplexity.text}, transformers": perplexity.transformers,
            "the same, llama.cpp": perplexity.llama_cpp,
            "tokens in llama.cpp": "as in transformers" if perplexity.same_tokens else "others than in transformers",
        }
    )
