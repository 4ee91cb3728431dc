"""`wina results`: what is stored."""

from typing import Annotated

import typer

from wina_core.cli import options
from wina_core.cli.tables import pivot, print_table, shown_first
from wina_core.errors import WinaError
from wina_core.store import MetricFilter, Store

Study = Annotated[str | None, typer.Option(help="Only this study: its name or hash.")]
Methods = Annotated[list[str] | None, typer.Option("--method", help="Repeatable: only these methods.")]
Rotations = Annotated[list[str] | None, typer.Option("--rotation", help="Repeatable: only these rotations' labels.")]
Tasks = Annotated[list[str] | None, typer.Option("--task", help="Repeatable: only these tasks.")]
Metrics = Annotated[list[str] | None, typer.Option("--metric", help="Repeatable: only these metrics.")]


def results(
    study: Study = None,
    method: Methods = None,
    rotation: Rotations = None,
    task: Tasks = None,
    metric: Metrics = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Print the stored results, one line per run."""
    with Store(database) as store:
        chosen = wanted(store, study, method, rotation, task, metric)
        rows, spec = store.metric_rows(chosen), store.study_spec(chosen.study)
    print_table(*pivot(shown_first(rows, spec.evaluation if spec else None)), as_json)


def wanted(
    store: Store,
    study: str | None,
    methods: list[str] | None,
    rotations: list[str] | None,
    tasks: list[str] | None,
    metrics: list[str] | None,
) -> MetricFilter:
    """The filter that the flags stand for."""
    return MetricFilter(
        study=study_hash(store, study) if study else "",
        methods=tuple(methods or ()),
        rotations=tuple(rotations or ()),
        tasks=tuple(tasks or ()),
        metrics=tuple(metrics or ()),
    )


def study_hash(store: Store, name: str) -> str:
    """The stored study of this hash, or the last launched of this name; WinaError where there is none."""
    studies = store.studies()
    for row in studies:  # the last launched first
        if name in (row.study, row.name):
            return row.study
    known = ", ".join(f'"{row.name}"' for row in studies) or "none yet"
    raise WinaError(f'No study "{name}" is stored; the stored ones are: {known}.')
