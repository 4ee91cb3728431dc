"""`wina results frontier`: quality against cost of every configuration of a model, and the Pareto front."""

from typing import TYPE_CHECKING, Annotated

import typer

from wina_core.analysis.comparison.axes import AXES, CostAxis, Quality
from wina_core.cli.arguments import options
from wina_core.cli.results import Filter, Study, app, filtered_frame, wanted
from wina_core.cli.tables import print_table
from wina_core.errors import WinaError
from wina_core.store import Store

if TYPE_CHECKING:
    import pandas as pd


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
