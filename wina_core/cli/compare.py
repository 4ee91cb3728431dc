"""`wina compare`: whether one stored run is better than another, with the evidence."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import typer

from wina_core.cli import options
from wina_core.cli.results import study_hash
from wina_core.cli.tables import print_table
from wina_core.comparison import INTERVALS, Comparison, compare_runs, mean_of_study
from wina_core.errors import WinaError
from wina_core.holm import holm_by_reference
from wina_core.paper import base_metric
from wina_core.store import Store
from wina_core.study_runs import comparable, study_runs, usual_baseline

COLUMNS = (
    "task", "metric", "first", "second", "difference", "low", "high", "p", "n", "first only", "second only", "test",
)  # fmt: skip


_Task = tuple[str, str, str]


class _Compared(NamedTuple):
    """A run against its reference."""

    tasks: tuple[Comparison, ...]
    mean: Comparison | None

    @property
    def shown(self) -> tuple[Comparison, ...]:
        """Line by line."""
        return (*self.tasks, *([self.mean] if self.mean else []))

    @property
    def ps(self) -> dict[_Task, float]:
        """Of each line, as if it were the only one."""
        return {_task(each): each.p for each in self.shown}


def _task(each: Comparison) -> _Task:
    return each.unit, each.task, each.metric


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
    interval and a two-sided p. Exact McNemar tests for what is right or wrong, paired bootstraps for other scores. The
    p of a study's arms is corrected by Holm, task by task, for all that are compared with the same run."""
    if (study is None) == (not runs) or (runs and len(runs) != 2):
        raise WinaError("Name two runs, or a study with --study.")
    if baseline and study is None:
        raise WinaError("--baseline names an arm of a study; add --study, or leave it out.")
    with Store(database) as store:
        if study is None:
            assert runs  # two, as checked
            first, second = (_run(store, prefix) for prefix in runs)
            compared = compare_runs(store, first, second, allow_unpaired=unpaired)
            found = _lines(_Compared(compared, mean_of_study(compared, "", ())))
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
    found = []
    for run, other in pairs:
        compared = compare_runs(
            store, run.run, other.run, allow_unpaired=allow_unpaired, metrics=spec.evaluation.metrics
        )
        found.append(_Compared(compared, mean_of_study(compared, spec.paper, tasks)))
    lines = []
    corrected = holm_by_reference([other.run for _, other in pairs], [each.ps for each in found])
    for (run, other), each, ps in zip(pairs, found, corrected, strict=True):
        who = (run.model, run.arm, other.arm, run.target_sparsity, run.run[:8], other.run[:8])
        lines += [(*who, *line) for line in _lines(each, ps)]
    return ("model", "arm", "baseline", "sparsity", "run", "its baseline", *COLUMNS), lines


def _run(store: Store, prefix: str) -> str:
    found = [row.run for row in store.runs() if row.run.startswith(prefix)]
    if len(found) != 1:
        what = "No stored run's hash begins" if not found else f"The hashes of {len(found)} stored runs begin"
        raise WinaError(f'{what} with "{prefix}"; wina export lists the runs with their hashes.')
    return found[0]


def _lines(found: _Compared, corrected: Mapping[_Task, float] | None = None) -> list[tuple[Any, ...]]:
    ps = found.ps if corrected is None else corrected
    return [
        (
            each.task, base_metric(each.metric), each.first, each.second, each.effect, each.low, each.high,
            ps[_task(each)], each.n, each.first_only, each.second_only, each.test,
        )
        for each in found.shown
    ]  # fmt: skip
