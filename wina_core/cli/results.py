"""`wina results`: what is stored."""

from typing import TYPE_CHECKING, Annotated

import typer

from wina_core.analysis.comparison.axes import AXES, CostAxis, Quality
from wina_core.analysis.results.columns import COLUMNS
from wina_core.cli.arguments import options
from wina_core.cli.tables import one_line_each, pivot, print_table, shown_first, summarized
from wina_core.errors import WinaError
from wina_core.store import MetricFilter, MetricRow, Store

if TYPE_CHECKING:
    import pandas as pd

    from wina_core.analysis.results.table import Mask, MetricTable

Study = Annotated[str | None, typer.Option(help="Only this study, by name or hash.")]
Methods = Annotated[list[str] | None, typer.Option("--method", help="Repeatable: only these methods.")]
Rotations = Annotated[
    list[str] | None, typer.Option("--rotation", help="Repeatable: only rotations with these labels.")
]
Tasks = Annotated[list[str] | None, typer.Option("--tasks", help="Repeatable: only these tasks.")]
Metrics = Annotated[list[str] | None, typer.Option("--metric", help="Repeatable: only these metrics.")]

Filter = Annotated[
    str,
    typer.Option(
        "--filter",
        metavar="LINE",
        help="As on the Results page: words, method:wina, gated>50, task:/regex/, tags:best; a minus excludes.",
    ),
]

app = typer.Typer(
    help="Print stored results, one line per run or metric; tag, annotate, pin, delete and restore runs.",
    invoke_without_command=True,
)


_WRITTEN = ("tags", "note", "user", "host")
"""Details of runs that --annotations prints."""


@app.callback()
def results(
    context: typer.Context,
    study: Study = None,
    method: Methods = None,
    rotation: Rotations = None,
    task: Tasks = None,
    metric: Metrics = None,
    line: Filter = "",
    annotations: Annotated[
        bool, options.in_output("--annotations", help="Also print each run's hash, tags, note, user and host.")
    ] = False,
    wide: Annotated[
        bool, options.in_output("--wide/--long", help="One line per run with metrics as columns, or one per metric.")
    ] = True,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Print stored results, one line per run."""
    if context.invoked_subcommand is not None:
        return
    with Store(database) as store:
        chosen = wanted(store, study, method, rotation, task, metric)
        rows, spec = filtered(store, chosen, line), store.study_spec(chosen.study)
        details = store.run_details() if annotations else {}
    rows = rows if as_json or metric or not wide else summarized(rows)
    shown = shown_first(rows, spec.evaluation if spec else None)
    columns, table = pivot(shown) if wide else one_line_each(shown)
    if annotations:
        columns = ["run", *_WRITTEN, *columns]
        runs = list(dict.fromkeys(row.run for row in shown)) if wide else [row.run for row in shown]
        written = ([getattr(details[run], name) for name in _WRITTEN] for run in runs)
        table = [[run, *each, *cells] for run, each, cells in zip(runs, written, table, strict=True)]
    print_table(columns, table, as_json)


def filtered(store: Store, chosen: MetricFilter, line: str) -> list[MetricRow]:
    """Return the chosen rows that pass a filter line; all where it is empty."""
    if not line:
        return store.metric_rows(chosen)
    from wina_core.store.metric_frames import metric_rows_of  # which loads numpy

    return metric_rows_of(filtered_frame(store, chosen, line))


def filtered_frame(store: Store, chosen: MetricFilter, line: str) -> "pd.DataFrame":
    """Return the chosen rows that pass a filter line as `Store.metrics` does, which a million rows fit in."""
    if not line:
        return store.metrics(chosen)
    table, mask = filtered_table(store, chosen, line)
    assert table.metrics is not None
    return table.metrics[mask]


def filtered_table(store: Store, chosen: MetricFilter, line: str) -> "tuple[MetricTable, Mask]":
    """Return the chosen rows as a table, and which of them pass a filter line."""
    from wina_core.analysis.results.filter import parse_filter, passing
    from wina_core.analysis.results.table import MetricTable  # which load numpy and pandas
    from wina_core.store.metric_frames import details_frame

    table = MetricTable(store.metrics(chosen), details_frame(store.run_details()), COLUMNS)
    return table, passing(parse_filter(line, COLUMNS), table)


def wanted(
    store: Store,
    study: str | None,
    methods: list[str] | None,
    rotations: list[str] | None,
    tasks: list[str] | None,
    metrics: list[str] | None,
) -> MetricFilter:
    """Return the filter of the options."""
    return MetricFilter(
        study=study_hash(store, study) if study else "",
        methods=tuple(methods or ()),
        rotations=tuple(rotations or ()),
        tasks=tuple(tasks or ()),
        metrics=tuple(metrics or ()),
    )


def study_hash(store: Store, name: str) -> str:
    """Return the hash of the study with this hash, or of the last launched one of this name. Raises WinaError."""
    studies = store.studies()
    for row in studies:  # the last launched first
        if name in (row.study, row.name):
            return row.study
    known = ", ".join(f'"{row.name}"' for row in studies) or "none yet"
    raise WinaError(f'No study "{name}" is stored; the stored ones are: {known}.')


@app.command()
def frontier(
    axis: Annotated[CostAxis, typer.Option("--against", help="The cost.")] = "bytes_read",
    task: Annotated[str, typer.Option("--tasks", help="Task of the quality.")] = Quality().task,
    metric: Annotated[str, typer.Option("--metric", help="Metric of the quality, such as kl or acc.")] = (
        Quality().metric
    ),
    model: Annotated[
        str | None, typer.Option("--model", help="The original's name, where several models are stored.")
    ] = None,
    study: Study = None,
    line: Filter = "",
    front_only: Annotated[bool, typer.Option("--front-only", help="Leave dominated points out.")] = False,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Print quality against cost of a model's configurations in all bits, and which are on the Pareto front.

    A configuration is on the front if none is better in one of the two and at least as good in the other. Imported
    points are in the table, but neither on the front nor compared with it.
    """
    with Store(database) as store:
        rows = filtered_frame(store, wanted(store, study, None, None, None, None), line)
        points, quality, _ = points_of(store, rows, axis, task, metric, model)
    shown = points[points["front"]] if front_only else points
    shown = shown.sort_values("x", ascending=not AXES[axis].higher_is_better)
    unit = f"{AXES[axis].title.lower()} ({AXES[axis].unit})"
    columns = ["configuration", unit, quality.title, "stderr", "front", "settings", "source"]
    table = [
        [row.name, row.x, row.y, row.stderr, "" if row.imported else bool(row.front), row.group, row.source]
        for row in shown.itertuples()
    ]
    print_table(columns, table, as_json)


def points_of(
    store: Store, rows: "pd.DataFrame", axis: CostAxis, task: str, metric: str, model: str | None
) -> "tuple[pd.DataFrame, Quality, str]":
    """Return the frontier of stored rows, its quality, and the name of its model; WinaError where there is none."""
    from wina_core.analysis.comparison.frontier import frontier_points, originals  # which load pandas

    present = set(rows["model_hash"])
    sources = {key: source for key, source in store.model_sources().items() if key in present}
    named = originals(sources)
    original = _chosen(named, model)
    quality = _quality(rows, task, metric)
    points = frontier_points(rows, sources, original, quality, axis, store.decode_rows(), store.imports())
    if points.empty:
        raise WinaError(
            f'No configuration has both "{quality.title}" and "{AXES[axis].title.lower()}"; {AXES[axis].advice}'
        )
    return points, quality, named[original]


def _chosen(named: dict[str, str], model: str | None) -> str:
    """Return the hash of the named original, or of the only one."""
    found = [key for key, name in named.items() if model in (None, name)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f'"{name}"' for name in named.values()) or "none yet"
    if model is None and found:
        raise WinaError(f"Several models are stored: {known}; choose one with --model.")
    if found:
        raise WinaError(f'"{model}" names several stored models of other files; narrow them down with --filter.')
    raise WinaError(f'No results of "{model}" are stored; the stored models are: {known}.')


def _quality(rows: "pd.DataFrame", task: str, metric: str) -> Quality:
    """Return the metric with its direction; WinaError where it is not stored."""
    own = rows[rows["task"] == task]
    found = own[own["metric"] == metric]
    if found.empty:
        known = ", ".join(sorted(set((own if len(own) else rows)["metric" if len(own) else "task"]))) or "none yet"
        what = f'the metric "{metric}" of "{task}"' if len(own) else f'the task "{task}"'
        raise WinaError(f"Nothing is stored for {what}; stored are: {known}.")
    better = found["higher_is_better"].iloc[0]
    return Quality(task, metric, None if better is None or better != better else bool(better))
