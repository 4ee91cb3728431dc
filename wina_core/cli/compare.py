"""`wina compare`: whether one stored run is better than another, with the evidence."""

from typing import Annotated, Any

import typer

from wina_core.cli import options
from wina_core.cli.results import study_hash
from wina_core.cli.tables import print_table
from wina_core.comparison import INTERVALS, Comparison, compare_runs, mean_of_study
from wina_core.errors import WinaError
from wina_core.paper import base_metric
from wina_core.store import Store
from wina_core.study_runs import comparable, study_runs, usual_baseline

COLUMNS = (
    "task", "metric", "first", "second", "difference", "low", "high", "p", "n", "first only", "second only", "test",
)  # fmt: skip


def compare(
    runs: Annotated[
        list[str] | None, typer.Argument(help="Two runs by their hashes or how those begin (wina export lists them).")
    ] = None,
    study: Annotated[str | None, typer.Option(help="All runs of this study, by name or hash, instead.")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="The arm that a study's others are compared with; TEAL or the first by default.")
    ] = None,
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="From standard errors alone where documents' scores are not stored.")
    ] = False,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Compare two stored runs, or a study's arms at equal sparsity, on every task they share: the difference, its 95 %
    interval and a two-sided p. Exact McNemar tests for what is right or wrong, paired bootstraps for other scores."""
    if (study is None) == (not runs) or (runs and len(runs) != 2):
        raise WinaError("Name two runs, or a study with --study.")
    if baseline and study is None:
        raise WinaError("--baseline names an arm of a study; add --study, or leave it out.")
    with Store(database) as store:
        if study is None:
            assert runs  # two, as checked
            first, second = (_run(store, prefix) for prefix in runs)
            compared = compare_runs(store, first, second, allow_unpaired=unpaired)
            found = _lines(compared, mean_of_study(compared, "", ()))
            columns: tuple[str, ...] = COLUMNS
        else:
            columns, found = _study_lines(store, study, baseline, unpaired)
    print_table(columns, found, as_json)
    for test in dict.fromkeys(line[-1] for line in found):
        typer.echo(f"{test}: 95 % interval by {INTERVALS[test]}.", err=True)


def _study_lines(
    store: Store, name: str, baseline: str | None, allow_unpaired: bool
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    spec = store.study_spec(study_hash(store, name))
    assert spec is not None  # it was just listed
    runs = study_runs(store, spec)
    reference = baseline or usual_baseline(runs)
    pairs = comparable(runs, reference) if reference else ()
    if not pairs:
        raise WinaError(f'The study "{spec.name}" has no two arms at equal sparsity to compare.')
    tasks = spec.evaluation.task_names
    metrics, lines = spec.evaluation.metrics, []
    for run, other in pairs:
        compared = compare_runs(store, run.run, other.run, allow_unpaired=allow_unpaired, metrics=metrics)
        who = (run.model, run.arm, other.arm, run.sparsity, run.run[:8], other.run[:8])
        lines += [(*who, *line) for line in _lines(compared, mean_of_study(compared, spec.paper, tasks))]
    return ("model", "arm", "baseline", "sparsity", "run", "its baseline", *COLUMNS), lines


def _run(store: Store, prefix: str) -> str:
    found = [row.run for row in store.runs() if row.run.startswith(prefix)]
    if len(found) != 1:
        what = "No stored run's hash begins" if not found else f"The hashes of {len(found)} stored runs begin"
        raise WinaError(f'{what} with "{prefix}"; wina export lists the runs with their hashes.')
    return found[0]


def _lines(comparisons: tuple[Comparison, ...], over_tasks: Comparison | None) -> list[tuple[Any, ...]]:
    shown = [*comparisons, *([over_tasks] if over_tasks else [])]
    return [
        (
            each.task, base_metric(each.metric), each.first, each.second, each.effect, each.low, each.high, each.p,
            each.n, each.first_only, each.second_only, each.test,
        )
        for each in shown
    ]  # fmt: skip
