"""`wina export-model`: a gated model as a folder that transformers loads."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from wina_core.cli.annotating import named_runs
from wina_core.cli.arguments import options
from wina_core.cli.arguments.flags import taking
from wina_core.cli.asking import announce_products
from wina_core.cli.running import run_recorded
from wina_core.cli.tables import print_pairs
from wina_core.errors import WinaError
from wina_core.files.disk import gigabytes
from wina_core.records import ExportRecord
from wina_core.report.card import export_job
from wina_core.specs import CalibrationSpec, Configuration, EvaluationSpec, Quantization, RunSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.store import Store


@taking(quantization=options.quantization_of, configuration=options.configuration)
def export_model(
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
    configuration: Configuration,
    sparsity: options.Sparsities = None,
    plan: options.Plans = None,
    database: options.Database = None,
    _yes: options.Yes = False,
    as_json: options.Json = False,
) -> None:
    """Write a gated model, with rotation, bits and a model card, to a folder that transformers loads after `import
    wina_core.hf`."""
    with Store(database) as store:
        if run is not None:
            options.allow_memory(memory)
            (name,) = named_runs([run], list(store.run_details()), "run")
            spec = store.run_spec(name)
            assert spec is not None  # it is one of the store's
        else:
            tables, quantization = options.plans_of(plan or (), quantization)
            plans = [*tables, *(UniformSparsity(sparsity=each) for each in sparsity or (() if plan else (0.5,)))]
            if len(plans) != 1:
                raise WinaError("A folder holds one sparse model; give one sparsity or one plan.")
            source = options.resolved_source(model, dtype, device, memory, quantization=quantization)
            spec = RunSpec(
                model=source,
                rotation=configuration.rotation,
                method=configuration.method,
                plan=plans[0],
                calibration=CalibrationSpec() if configuration.method.needs_calibration else None,
                evaluation=EvaluationSpec(tasks=()),
            )
        job = export_job(store, spec, folder, ("wina", *sys.argv[1:]))
        announce_products(job)
        record = run_recorded(job, store).value
    assert isinstance(record, ExportRecord)
    if as_json:
        typer.echo(record.model_dump_json(indent=1))
        return
    print_pairs({"saved in": record.folder, "size": gigabytes(record.bytes)})
    typer.echo("Load it with transformers after `import wina_core.hf`.", err=True)
