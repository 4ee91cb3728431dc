"""`wina results`: what is stored, annotations, deletion, experts, and merging of databases."""

from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from wina_core.analysis.comparison.axes import AXES, CostAxis, Quality
from wina_core.api.figures import points_of
from wina_core.api.progress import terminal_reporter
from wina_core.api.stored import filtered, filtered_frame, metric_filter, named_runs, pivot, shown_first
from wina_core.cli import options
from wina_core.cli.tables import counted, one_line_each, print_table, summarized
from wina_core.errors import WinaError
from wina_core.records import EXPERT_SHARE, EXPERT_SPARSITY, EXPERT_THRESHOLD
from wina_core.records.texts import moment
from wina_core.store import MetricFilter, Store
from wina_core.store.annotations import RunAnnotations, split_tags
from wina_core.store.merge import merge_database, open_source
from wina_core.store.rows import CellStat

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
Runs = Annotated[
    list[str] | None,
    typer.Argument(metavar="RUN", help="Beginnings of hashes; `wina results --annotations` lists them."),
]

app = typer.Typer(
    help="Print stored results, one line per run or metric; tag, annotate, pin, delete and restore runs.",
    invoke_without_command=True,
)


LISTED = "`wina results --annotations` lists them"
"""Advice in errors on hashes of runs."""
_WRITTEN = ("tags", "note", "user", "host")
"""Details of runs that --annotations prints."""
_MOST_NAMED = 3
_METRICS = {"sparsity": EXPERT_SPARSITY, "share of tokens": EXPERT_SHARE, "threshold": EXPERT_THRESHOLD}
"""Metrics of an expert in a run, by their columns."""


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


# ---- runs ------------------------------------------------------------------------------------------------------------


@app.command()
def tag(
    runs: Runs = None,
    add: Annotated[str, typer.Option(help="Tags to add, comma-separated.")] = "",
    remove: Annotated[str, typer.Option(help="Tags to remove, comma-separated.")] = "",
    line: Filter = "",
    database: options.Database = None,
) -> None:
    """Add or remove tags of runs."""
    if not split_tags(add) and not split_tags(remove):
        raise WinaError("No tag is named; use --add best,report or --remove best.")

    def change(annotations: RunAnnotations) -> RunAnnotations:
        return annotations._replace(
            tags=tuple((set(annotations.tags) | set(split_tags(add))) - set(split_tags(remove)))
        )

    _annotate(database, runs, line, "tags", change)


@app.command()
def note(
    text: Annotated[str, typer.Argument(help="The note; an empty text removes it.")],
    runs: Runs = None,
    line: Filter = "",
    database: options.Database = None,
) -> None:
    """Write a note on runs."""
    _annotate(database, runs, line, "note", lambda annotations: annotations._replace(note=text))


@app.command()
def pin(
    runs: Runs = None,
    off: Annotated[bool, typer.Option("--off", help="Unpin the runs.")] = False,
    line: Filter = "",
    database: options.Database = None,
) -> None:
    """Pin runs to the top of lists."""
    _annotate(database, runs, line, "pinned", lambda annotations: annotations._replace(pinned=not off))


@app.command()
def delete(runs: Runs = None, line: Filter = "", database: options.Database = None) -> None:
    """Delete runs. Their results are not reused; `restore` brings them back, `purge` erases them."""
    with Store(database) as store:
        chosen = _chosen(store, runs, line)
        store.delete_runs(chosen)
    others = ", and the others that `wina results deleted` lists" if len(chosen) > _MOST_NAMED else ""
    command = f"wina results restore {' '.join(chosen[:_MOST_NAMED])}"
    typer.echo(f"{counted(len(chosen), 'run')} deleted; bring back with: {command}{others}", err=True)


@app.command()
def deleted(database: options.Database = None, as_json: options.Json = False) -> None:
    """List deleted runs, which can be restored."""
    with Store(database) as store:
        rows = store.deleted_runs()
    columns = ["run", "model", "configuration", "plan", "target", "deleted"]
    lines = [
        [row.run, row.model, row.configuration, row.plan, row.target_sparsity, moment(row.deleted or 0.0)]
        for row in rows
    ]
    print_table(columns, lines, as_json)


@app.command()
def restore(
    runs: Runs = None,
    everything: Annotated[bool, typer.Option("--all", help="Restore all deleted runs.")] = False,
    database: options.Database = None,
) -> None:
    """Restore deleted runs with their results."""
    with Store(database) as store:
        deleted = [row.run for row in store.deleted_runs()]
        chosen = deleted if everything else named_runs(runs or [], deleted, "deleted run", LISTED)
        store.restore_runs(chosen)
    typer.echo(f"{counted(len(chosen), 'run')} restored.", err=True)


@app.command()
def purge(
    yes: Annotated[bool, typer.Option("--yes", help="Erase without asking.")] = False, database: options.Database = None
) -> None:
    """Erase deleted runs for good."""
    with Store(database) as store:
        count = len(store.deleted_runs())
        if count and not yes:
            typer.confirm(f"Erase {counted(count, 'run')} with all numbers for good?", abort=True)
        count = store.purge_deleted()
    typer.echo(f"{counted(count, 'run')} erased.", err=True)


def _annotate(
    database: str | None,
    runs: list[str] | None,
    line: str,
    field: str,
    change: Callable[[RunAnnotations], RunAnnotations],
) -> None:
    # Only that field is written: a window may write the others meanwhile.
    with Store(database) as store:
        details = store.run_details()
        chosen = _chosen(store, runs, line)
        before = {
            run: RunAnnotations(split_tags(details[run].tags), details[run].note, details[run].pinned) for run in chosen
        }
        store.annotate_runs({run: change(annotations) for run, annotations in before.items()}, (field,), seen=before)
    typer.echo(f"{counted(len(chosen), 'run')} marked.", err=True)


def _chosen(store: Store, runs: list[str] | None, line: str) -> list[str]:
    """Return runs by the beginnings of their hashes or, without any, those with a metric that passes the line."""
    if runs:
        return named_runs(runs, list(store.run_details()), advice=LISTED)
    if not line:
        raise WinaError("No run is named; give beginnings of hashes, or a --filter.")
    matching = list(dict.fromkeys(row.run for row in filtered(store, MetricFilter(), line)))
    if not matching:
        raise WinaError(f'No stored run passes the filter "{line}".')
    return matching


@app.command()
def experts(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Beginning of a hash; `wina results --annotations` lists them.")
    ],
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Print what each expert of a run dropped, the share of tokens that read it, and its threshold."""
    with Store(database) as store:
        (name,) = named_runs([run], list(store.run_details()), advice=LISTED)
        rows = _rows(store.expert_stats(name))
    if not rows:
        raise WinaError(
            f"The run {name} has no numbers of experts: its model has no experts, or an earlier version measured it; "
            "measure it again with --recompute."
        )
    print_table(("layer", "expert", "projection", *_METRICS), rows, as_json)


def _rows(stats: Iterable[CellStat]) -> list[tuple[int | str | float | None, ...]]:
    metrics: dict[tuple[int, int, str], dict[str, float]] = {}
    for row in stats:
        if row.x is not None:
            metrics.setdefault((row.layer, int(row.x), row.projection), {})[row.metric] = row.value
    cells = sorted(metrics, key=lambda cell: cell[:2])
    return [(*cell, *(metrics[cell].get(metric) for metric in _METRICS.values())) for cell in cells]


@app.command()
def merge(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE...", help="SQLite files or SQLAlchemy URLs, which are only read.")
    ],
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Add the results of other databases to this one, which is made where it does not exist.

    Rows are matched by their hashes and names. What this database has stays; tags and pins are united. The same command
    completes a merge that was interrupted. Prints the rows added to each table.
    """
    for source in sources:
        with open_source(source):  # nothing is merged where one of them cannot be read
            pass
    added: dict[str, int] = {}
    with Store(database) as store, terminal_reporter() as reporter:

        def show(done: int, total: int) -> None:
            reporter.progress(done, total, "rows")
            reporter.check()

        for source in sources:
            for table, count in merge_database(source, store, show).items():
                added[table] = added.get(table, 0) + count
    print_table(("table", "added"), list(added.items()), as_json)
