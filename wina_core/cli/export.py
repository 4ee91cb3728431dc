"""`wina export`: stored results as a file."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wina_core.cli import options
from wina_core.cli.results import Filter, Methods, Metrics, Rotations, Study, Tasks, filtered_frame, wanted
from wina_core.files.tables import BATCH, FORMATS, check_table_file, write_table
from wina_core.results.frames import metric_rows_of
from wina_core.store import MetricRow, Store

if TYPE_CHECKING:  # pandas takes a third of a second to import
    import pandas as pd


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
    check_table_file(file)
    with Store(database) as store:
        rows = ExportedRows(filtered_frame(store, wanted(store, study, method, rotation, task, metric), line))
    write_table((*MetricRow._fields, "warning"), rows, file)
    typer.echo(f"{len(rows)} metrics written to {file}.", err=True)


class ExportedRows:
    """Rows of a frame with their warnings, made a batch at a time: a million of them take gigabytes."""

    def __init__(self, frame: "pd.DataFrame") -> None:
        self._frame = frame

    def __len__(self) -> int:
        return len(self._frame)

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        for start in range(0, len(self), BATCH):
            for row in metric_rows_of(self._frame.iloc[start : start + BATCH]):
                yield *row, row.warning
