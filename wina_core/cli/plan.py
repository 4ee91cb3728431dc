"""`wina plan`: named sparsity plans in the database."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from wina_core.cli.arguments import options
from wina_core.cli.tables import print_pairs, print_table
from wina_core.cli.terminal import terminal_reporter
from wina_core.files.tables import write_atomically
from wina_core.jobs import CostJob
from wina_core.records.texts import moment
from wina_core.specs import DENSE, ModelSource, QuantizationSpec, quantization_label
from wina_core.specs.plan_pair import load_pair
from wina_core.specs.plans import PlanLayout, UniformSparsity
from wina_core.specs.searched_shares import read_searched_shares
from wina_core.store import Store

app = typer.Typer(
    help="Manage the plans saved in the database: target sparsities, and bits with them.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(help="A saved plan's name.")]
File = Annotated[Path, typer.Argument(help="A plan's JSON file, as `wina eval --plan` and `wina cost --plan` read it.")]


@app.command("list")
def list_plans(database: options.Database = None, as_json: options.Json = False) -> None:
    """List the saved plans, the newest first."""
    with Store(database) as store:
        plans = store.list_plans()
    rows = [(row.name, row.provenance, row.budget, moment(row.saved)[:16]) for row in plans]
    print_table(("name", "provenance", "budget", "saved"), rows, as_json)


@app.command()
def show(name: Name, database: options.Database = None, as_json: options.Json = False) -> None:
    """Print a saved plan, layers by projections; with --json, as the file would be."""
    with Store(database) as store:
        pair = store.load_plan(name)
    if as_json:
        typer.echo(pair.text().rstrip())
        return
    plan, bits = pair.plan, pair.quantization
    weights = sum(map(sum, plan.layout.parameters))
    facts = {"name": name, "provenance": plan.provenance, "budget": plan.budget, "gated weights": weights}
    print_pairs(facts | ({} if bits is None else {"quantization": quantization_label(bits)}))
    _print_cells(plan.layout, "target sparsity", plan.sparsity)
    if isinstance(bits, QuantizationSpec):
        _print_cells(plan.layout, "bits", bits.plan(plan.layout).bits)


@app.command()
def export(name: Name, file: File, database: options.Database = None) -> None:
    """Write a saved plan to a file."""
    with Store(database) as store:
        pair = store.load_plan(name)
    write_atomically(file, pair.text().encode())


@app.command("import-shares")
def import_shares(
    searched: Annotated[
        Path, typer.Argument(help="The output of R-Sparse's search: one share and one sparsity for each matrix.")
    ],
    model: options.Model,
    file: File,
) -> None:
    """Convert R-Sparse's searched shares into a plan for MODEL. Reads no weights."""
    job = CostJob(model=ModelSource(location=model), method=DENSE, plan=UniformSparsity(sparsity=0.0))
    with terminal_reporter() as reporter:
        from wina_core.engine.server.cost import count_costs  # takes seconds; Ctrl-C works meanwhile

        layout = count_costs(job, reporter).shape.layout
    plan = read_searched_shares(searched, layout)
    write_atomically(file, (plan.model_dump_json(indent=1) + "\n").encode())


@app.command()
def save(file: File, name: Name, database: options.Database = None) -> None:
    """Save a file's plan in the database under a name; an earlier plan of that name is replaced."""
    pair = load_pair(file)
    with Store(database) as store:
        store.save_plan(name, pair.plan, pair.quantization)


@app.command()
def forget(name: Name, database: options.Database = None) -> None:
    """Delete a saved plan."""
    with Store(database) as store:
        store.delete_plan(name)


def _print_cells(layout: PlanLayout, quantity: str, rows: Sequence[Sequence[float]]) -> None:
    typer.echo(f"\n{quantity}")
    print_table(("layer", *layout.projections), [(layer, *row) for layer, row in enumerate(rows)], as_json=False)
