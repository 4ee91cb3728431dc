"""`wina export-model`: a gated model as a folder that transformers loads."""

from pathlib import Path
from typing import Annotated

import typer

from wina_core.cli.annotating import named_runs
from wina_core.cli.arguments import options
from wina_core.cli.arguments.configuration import combine_on
from wina_core.cli.arguments.flags import taking
from wina_core.cli.asking import announce_products
from wina_core.cli.running import run_recorded
from wina_core.cli.tables import print_pairs
from wina_core.errors import WinaError
from wina_core.files.disk import file_size
from wina_core.records import ExportRecord
from wina_core.report.model_card import export_job
from wina_core.report.sparse_runs import sparse_run
from wina_core.specs import CalibrationSpec, MethodSpec, Quantization, RotationSpec, RunSpec, TextSpec
from wina_core.specs.plans import SparsityPlan, UniformSparsity
from wina_core.specs.presets import check_uniform
from wina_core.store import Store

_BESIDE_RUN = ("folder", "run", "memory", "database", "_yes", "as_json")
"""Parameters that a stored run leaves open."""


@taking(quantization=options.quantization_of, method=options.method_spec, rotation=options.rotation_spec)
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
    _machine: options.Machines = None,
    database: options.Database = None,
    _yes: options.Yes = False,
    as_json: options.Json = False,
) -> None:
    """Write a gated model, with rotation, bits and a model card, to a folder that transformers loads after `import
    wina_core.hf`."""
    with Store(database) as store:
        if run is not None:
            _check_alone(context)
            options.allow_memory(memory)
            spec = stored_run(store, run)
        else:
            configuration = combine_on(calibration_text, context, method, rotation, preset)
            check_uniform(configuration, plan or ())
            tables, quantization = options.plans_of(plan or (), quantization)
            plans: list[UniformSparsity | SparsityPlan] = [
                *tables,
                *(UniformSparsity(sparsity=each) for each in sparsity or (() if plan else (0.5,))),
            ]
            if len(plans) != 1:
                raise WinaError("A folder holds one sparse model; give one sparsity or one plan.")
            source = options.resolved_source(model, dtype, device, memory, quantization=quantization)
            text = TextSpec(source=calibration_text, tokens=calibration_tokens)
            calibration = CalibrationSpec(text=text, thresholds=thresholds)
            spec = sparse_run(source, configuration, plans[0], calibration, dense_prefix)
        job = export_job(store, spec, folder)
        announce_products(job)
        record = run_recorded(job, store).value
    assert isinstance(record, ExportRecord)
    if as_json:
        typer.echo(record.model_dump_json(indent=1))
        return
    print_pairs({"saved in": record.folder, "size": file_size(record.bytes)})
    typer.echo("Load it with transformers after `import wina_core.hf`.", err=True)


def stored_run(store: Store, beginning: str) -> RunSpec:
    """Return the stored run whose hash begins so; WinaError for none and for several."""
    (name,) = named_runs([beginning], list(store.run_details()), "run")
    spec = store.run_spec(name)
    assert spec is not None  # it is one of the store's
    return spec


def _check_alone(context: typer.Context) -> None:
    """Raise WinaError for flags of a model or its gates, which a stored run has already."""
    others = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name not in _BESIDE_RUN
        and (source := context.get_parameter_source(parameter.name or ""))
        and source.name == "COMMANDLINE"
    ]
    if others:
        raise WinaError(f"A stored run has its own model and gates; leave out {', '.join(others)}, or --run.")
