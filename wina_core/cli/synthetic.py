"""`wina synthetic`: the paper's synthetic table beside the published numbers."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from wina_core.cli.arguments import options
from wina_core.cli.computing import RunOptions, compute
from wina_core.cli.tables import print_table
from wina_core.specs import (
    SYNTHETIC,
    Configuration,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    NetworkName,
    SyntheticSpec,
)
from wina_core.specs.studies import StudySpec
from wina_core.store import MetricFilter, MetricRow, Store
from wina_core.studies import published_errors

COLUMNS = ("network", "method", "sparsity", "error", "deviation", "paper", "paper deviation", "inside")


def synthetic(
    network: Annotated[NetworkName | None, typer.Option(help="The kind of network; both by default.")] = None,
    size: Annotated[int, typer.Option(help="Number of inputs of each network.")] = published_errors.SIZE,
    seeds: Annotated[int, typer.Option(help="Number of random networks of each kind.")] = 20,
    sparsity: Annotated[
        list[float] | None, typer.Option(help="Repeatable: fraction to drop; the paper's four by default.")
    ] = None,
    rho: Annotated[float, typer.Option(help="R-Sparse's share of the mask.")] = 0.98,
    again: options.Again = False,
    _machine: options.Machines = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Repeat the paper's table of random column-orthogonal networks.

    Measures, stores and prints the errors of TEAL (here equal to CATS), R-Sparse and WINA: mean and standard deviation
    over the seeds, and whether the mean lies inside the paper's error bar.
    """
    networks = (network,) if network else SyntheticSpec().networks
    methods = (MethodSpec(name="teal"), MethodSpec(name="rsparse", rho=rho), MethodSpec(name="wina"))
    study = StudySpec(
        name=SYNTHETIC,
        models=(ModelSource(location=SYNTHETIC),),
        configurations=tuple(Configuration(method=method) for method in methods),
        sparsities=tuple(sparsity or published_errors.SPARSITIES),
        evaluation=EvaluationSpec(synthetic=SyntheticSpec(networks=networks, size=size, seeds=seeds)),
    )
    with Store(database) as store:
        computed = compute(study, RunOptions(again=again), store)
        rows = store.metric_rows(MetricFilter(study=computed.study))
    print_table(COLUMNS, comparison(rows, comparable=size == published_errors.SIZE), as_json)
    computed.check()


def comparison(rows: Iterable[MetricRow], comparable: bool) -> list[tuple[Any, ...]]:
    """Return a line of COLUMNS for each network, method and sparsity, with published values if `comparable`."""
    cells: dict[tuple[str, str, float], dict[str, float]] = {}
    for row in rows:
        cells.setdefault((row.task, row.method, row.target_sparsity), {})[row.metric] = row.value
    lines: list[tuple[Any, ...]] = []
    for (network, method, sparsity), values in sorted(cells.items(), key=lambda cell: cell[0][0]):
        error = values["error"]
        bar = published_errors.paper_error(network, method.partition(" ")[0], sparsity) if comparable else None
        theirs = (None, None, None) if bar is None else (bar.mean, bar.deviation, "yes" if bar.holds(error) else "no")
        lines.append((network, method, sparsity, error, values["error_deviation"], *theirs))
    return lines
