"""A CSV table with named columns, one configuration a row, for the results of any tool."""

import csv
import io
from datetime import UTC, datetime

from wina_core.errors import WinaError, near_matches
from wina_core.records.imports import ImportedPoint, Parsed
from wina_core.store.imported.metrics import METRICS, checked

TEXTS = {
    "name": "label of the configuration; required",
    "model": "name of the measured model",
    "parameters": "number of its weights",
    "tool": "the tool that measured",
    "version": "its version",
    "hardware": "processor or GPU of the measurement",
    "date": "day or time of the measurement, ISO 8601",
    "settings": "free text",
}
"""Columns that are no metric."""
_BY_COLUMN = {metric.column: name for name, metric in METRICS.items()} | {name: name for name in METRICS}
_ERROR = "_stderr"


def from_csv(text: str) -> Parsed:
    """Return a point for each row; raise WinaError for unknown or missing columns and for cells that are no numbers."""
    rows = csv.reader(io.StringIO(text), strict=True)
    try:
        header = [column.strip() for column in next(rows)]
        _check_header(header)
        filled = [(rows.line_num, row) for row in rows if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise WinaError(f"line {rows.line_num} is no valid CSV ({error}).") from error
    if not filled:
        raise WinaError("it has a header, but no row.")
    points, dates = [], []
    for line, row in filled:
        if len(row) != len(header):
            raise WinaError(f"line {line} has {len(row)} cells, but the header has {len(header)}.")
        cells = {column: cell.strip() for column, cell in zip(header, row, strict=True)}
        points.append(_point(cells, f"line {line}"))
        dates += [_date(cells["date"], f"line {line}")] if cells.get("date") else []
    return Parsed("table", tuple(points), measured=min(dates, default=None))


def _check_header(header: list[str]) -> None:
    if len(set(header)) < len(header):
        double = next(column for column in header if header.count(column) > 1)
        raise WinaError(f'its header has the column "{double}" twice.')
    valid = {*TEXTS, *_BY_COLUMN, *(f"{column}{_ERROR}" for column in _BY_COLUMN)}
    for column in header:
        if column not in valid:
            hint = near_matches(column, valid) or "the guide lists the known ones."
            raise WinaError(f'its column "{column}" is unknown; {hint}')
    if "name" not in header:
        raise WinaError('its column "name" is missing; every row needs the label of its configuration.')
    if not any(column in _BY_COLUMN for column in header):
        metrics = ", ".join(metric.column for metric in METRICS.values())
        raise WinaError(f"it has no column of a metric; the known ones are {metrics}.")


def _point(cells: dict[str, str], where: str) -> ImportedPoint:
    if not cells["name"]:
        raise WinaError(f"{where} has no name.")
    metrics = {}
    for column, name in _BY_COLUMN.items():
        if cells.get(column):
            error = cells.get(f"{column}{_ERROR}")
            stderr = _number(error, f"{column}{_ERROR}", where) if error else None
            metrics[name] = checked(name, _number(cells[column], column, where), stderr, where)
    if not metrics:
        raise WinaError(f"{where} has no number.")
    parameters = _number(cells["parameters"], "parameters", where) if cells.get("parameters") else None
    settings = {name: cells[name] for name in ("tool", "version", "settings") if cells.get(name)}
    return ImportedPoint(
        name=cells["name"], metrics=metrics, settings=settings, model=cells.get("model", ""),
        parameters=parameters, hardware=cells.get("hardware", ""),
    )  # fmt: skip


def _number(cell: str, column: str, where: str) -> float:
    try:
        return float(cell)
    except ValueError as error:
        raise WinaError(f'{where}: {column} is "{cell[:40]}", which is no number.') from error


def _date(cell: str, where: str) -> float:
    try:
        date = datetime.fromisoformat(cell)
    except ValueError as error:
        raise WinaError(f'{where}: date is "{cell[:40]}"; write it as 2026-11-24 or 2026-11-24T15:30:00Z.') from error
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
