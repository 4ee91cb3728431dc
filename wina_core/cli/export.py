"""`wina export`: stored results as a file."""

from pathlib import Path
from typing import Annotated

import typer

from wina_core.cli import options
from wina_core.cli.results import Filter, Methods, Metrics, Rotations, Study, Tasks, filtered, wanted
from wina_core.files.tables import FORMATS, write_table
from wina_core.store import MetricRow, Store


def export(
    file: Annotated[Path, typer.Argument(help=f"The file; its suffix chooses the format: {', '.join(FORMATS)}.")],
    study: Study = None,
    method: Methods = None,
    rotation: Rotations = None,
    task: Tasks = None,
    metric: Metrics = None,
    line: Filter = "",
    database: options.Database = None,
) -> None:
    """Export stored results to a file, one line per metric, with every digit."""
    with Store(database) as store:
        rows = filtered(store, wanted(store, study, method, rotation, task, metric), line)
    warned = [(*row, row.warning) for row in rows]
    write_table((*MetricRow._fields, "warning"), warned, file)
    typer.echo(f"{len(rows)} metrics written to {file}.", err=True)
