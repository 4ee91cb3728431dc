"""`wina results frontier`: quality against cost of every configuration of a model, and the Pareto front."""

from typing import Annotated

import typer

from wina_core.analysis.comparison.axes import AXES, CostAxis, Quality
from wina_core.api.figures import points_of
from wina_core.api.stored import filtered_frame, metric_filter
from wina_core.cli import options
from wina_core.cli.results import Filter, Study, app
from wina_core.cli.tables import print_table
from wina_core.store import Store


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
    shown = points[points["front"]] if front_only else points
    shown = shown.sort_values("x", ascending=not AXES[axis].higher_is_better)
    unit = f"{AXES[axis].title.lower()} ({AXES[axis].unit})"
    columns = ["configuration", unit, quality.title, "stderr", "front", "settings", "source"]
    table = [
        [row.name, row.x, row.y, row.stderr, "" if row.imported else bool(row.front), row.group, row.source]
        for row in shown.itertuples()
    ]
    print_table(columns, table, as_json)
