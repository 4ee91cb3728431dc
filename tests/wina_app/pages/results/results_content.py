"""Rows and a filter in the results table, without a store's thread."""

from collections.abc import Sequence

from wina_app.pages.results.table import Content, ResultsTable

from wina_core.results.columns import COLUMNS
from wina_core.results.filter import parse_filter, passing
from wina_core.results.frame import Frame
from wina_core.store import MetricRow, RunDetails

PLAIN = RunDetails(tags="", note="", pinned=False, seed=1234, hardware="", studies="", rotation="")


def content_of(rows: Sequence[MetricRow], **details: RunDetails) -> Content:
    """The rows, of runs with these details by their hashes, or with none."""
    return Content(Frame(list(rows), {row.run: details.get(row.run, PLAIN) for row in rows}, COLUMNS))


def show_rows(table: ResultsTable, rows: Sequence[MetricRow], line: str = "", **details: RunDetails) -> None:
    """Show those rows that pass a filter."""
    content = content_of(rows, **details)
    table.show(content, passing(parse_filter(line, COLUMNS), content.frame))


def filter_by(table: ResultsTable, line: str) -> None:
    """Filter the rows that there are."""
    table.set_mask(passing(parse_filter(line, COLUMNS), table.frame))
