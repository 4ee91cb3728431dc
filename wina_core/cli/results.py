"""`wina results`: what is stored."""

from typing import Annotated

import typer

from wina_core.analysis.comparison.axes import AXES, CostAxis, Quality
from wina_core.api.figures import points_of
from wina_core.api.stored import filtered, filtered_frame, metric_filter, pivot, shown_first
from wina_core.cli import options
from wina_core.cli.tables import one_line_each, print_table, summarized
from wina_core.store import Store

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


LISTED = "`wina results --annotations` lists them"
"""Advice in errors on hashes of runs."""
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
        chosen = metric_filter(store, study, method, rotation, task, metric)
        rows, spec = filtered(store, chosen, line), store.study_spec(chosen.study)
        details = store.run_details() if annotations else {}
    rows = rows if as_json or metric or not wide else summarized(rows)
    ordered = shown_first(rows, spec.evaluation if spec else None)
    columns, table = pivot(ordered) if wide else one_line_each(ordered)
    if annotations:
        columns = ["run", *_WRITTEN, *columns]
        runs = list(dict.fromkeys(row.run for row in ordered)) if wide else [row.run for row in ordered]
        written = ([getattr(details[run], name) for name in _WRITTEN] for run in runs)
        table = [[run, *annotation, *cells] for run, annotation, cells in zip(runs, written, table, strict=True)]
    print_table(columns, table, as_json)


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
        rows = filtered_frame(store, metric_filter(store, study), line)
        points, quality, _ = points_of(store, rows, axis, task, metric, model)
    listed = points[points["front"]] if front_only else points
    listed = listed.sort_values("x", ascending=not AXES[axis].higher_is_better)
    unit = f"{AXES[axis].title.lower()} ({AXES[axis].unit})"
    columns = ["configuration", unit, quality.title, "stderr", "front", "settings", "source"]
    table = [
        [row.name, row.x, row.y, row.stderr, "" if row.imported else bool(row.front), row.group, row.source]
        for row in listed.itertuples()
    ]
    print_table(columns, table, as_json)
