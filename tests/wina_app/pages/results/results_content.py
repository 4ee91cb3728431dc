"""Rows and a filter in the results table, without a store's thread."""

from collections.abc import Sequence

from wina_app.pages.results.table import ResultsTable

from wina_core.analysis.results.columns import COLUMNS
from wina_core.analysis.results.filter import parse_filter, passing
from wina_core.analysis.results.table import MetricResults
from wina_core.store import MetricRow, RunDetails
from wina_core.store.metric_frames import details_frame, metrics_frame

PLAIN = RunDetails(tags="", note="", pinned=False, seed=1234, hardware="", studies="", rotation="")


def cells_of_rows(rows: Sequence[MetricRow], **details: RunDetails) -> MetricResults:
    """The rows, of runs with these details by their hashes, or with none."""
    return MetricResults(
        metrics_frame(rows), details_frame({row.run: details.get(row.run, PLAIN) for row in rows}), COLUMNS
    )


def show_rows(table: ResultsTable, rows: Sequence[MetricRow], line: str = "", **details: RunDetails) -> None:
    """Show those rows that pass a filter."""
    cells = cells_of_rows(rows, **details)
    table.show(cells, passing(parse_filter(line, COLUMNS), cells))


def filter_by(table: ResultsTable, line: str) -> None:
    """Filter the rows that there are."""
    table.show(table.metrics, passing(parse_filter(line, COLUMNS), table.metrics))
