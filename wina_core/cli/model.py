"""`wina model`: a summary of a model."""

import typer

from wina_core.accounting.describe import check_source
from wina_core.accounting.matrices import held_by_projection
from wina_core.cli.arguments import options
from wina_core.cli.arguments.flags import taking
from wina_core.cli.running import run_recorded
from wina_core.cli.tables import print_pairs, quantization_pairs
from wina_core.engine.protocol import InspectJob
from wina_core.records import ModelSummary
from wina_core.specs import ModelSource
from wina_core.store import Store

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Inspect models."""


@app.command()
@taking(model=options.model_source)
def info(
    model: ModelSource,
    _machine: options.Machines = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Load a model and print its architecture, its size and its gated weights."""
    check_source(model)  # before the libraries that load it, which take seconds to import
    with Store(database) as store:
        summary = run_recorded(InspectJob(model=model), store).value
    assert isinstance(summary, ModelSummary)
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
