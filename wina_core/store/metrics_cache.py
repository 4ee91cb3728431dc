"""Cache of stored metrics: hundreds of thousands are listed repeatedly while a study is computed."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from wina_core.results.frames import table_frame
from wina_core.results.rows import MetricRow
from wina_core.store.metrics import (
    OF_MEASURE,
    OF_MODEL_AND_RUN,
    OF_UNIT,
    Query,
    check_cells,
    driver_rows,
    measures_query,
    runs_query,
    units_query,
)
from wina_core.store.rows import MetricFilter
from wina_core.store.tables import Metric

if TYPE_CHECKING:
    import pandas as pd

_AT_ONCE = 500
"""Ids in one query; databases bound how many values one takes, old SQLite to 999."""
_CHUNK = 5_000
"""Rows that are fetched at once."""


class _Numbers(NamedTuple):
    """Metrics in the order of their ids."""

    unit: NDArray[Any]
    measure: NDArray[Any]
    value: NDArray[Any]
    stderr: NDArray[Any]

    def where_unit(self, units: Sequence[int], invert: bool = False) -> "_Numbers":
        mask = np.isin(self.unit, units, invert=invert)
        return self if mask.all() else _Numbers(*(column[mask] for column in self))


class _Listing(NamedTuple):
    wanted: MetricFilter
    heads: tuple[Sequence[Any], Sequence[Any], Sequence[Any]]
    frame: "pd.DataFrame"


class MetricsCache:
    """The numbers that were listed before: only those of new and changed units are read again. A unit is stored as a
    whole, and at another time whenever it is computed again."""

    def __init__(self) -> None:
        self._known: tuple[dict[int, float], _Numbers] = {}, _fetched(())
        """Time at which each known unit was finished, by its id, and the numbers of these units."""
        self._last: _Listing | None = None

    def list(self, wanted: MetricFilter, connection: Connection) -> "pd.DataFrame":
        """Return the wanted metrics, in the order in which they arrived, with MetricRow's fields as columns.

        The frame of the last call is returned where nothing has changed since: do not change it.
        """
        of_runs = replace(wanted, tasks=(), metrics=())
        runs, units, measures = (
            driver_rows(connection, query) for query in (runs_query(of_runs), units_query(of_runs), measures_query())
        )
        last = self._last
        if last is None or last[:2] != (of_runs, (runs, units, measures)):
            numbers = self._numbers_of({row[0]: row[4] for row in units}, connection)
            last = _Listing(of_runs, (runs, units, measures), _joined(runs, units, measures, numbers))
            self._last = last
        frame = last.frame
        for column, values in (("task", wanted.tasks), ("metric", wanted.metrics)):
            frame = frame[frame[column].isin(values)].reset_index(drop=True) if values else frame
        return frame

    def _numbers_of(self, finished: dict[int, float], connection: Connection) -> _Numbers:
        """Return the numbers of these units, and of others; new are read, and those finished at another time."""
        known, numbers = self._known  # at once: others may be listing
        unknown = [unit for unit, when in finished.items() if known.get(unit) != when]
        if unknown:
            pairs = zip(
                numbers.where_unit(unknown, invert=True), _numbers(unknown, len(finished), connection), strict=True
            )
            numbers = _Numbers(*map(np.concatenate, pairs))
            self._known = known | {unit: finished[unit] for unit in unknown}, numbers
        return numbers


def _joined(runs: Sequence[Any], units: Sequence[Any], measures: Sequence[Any], numbers: _Numbers) -> "pd.DataFrame":
    """Join the tables by their ids, which are their first columns, in ascending order."""
    import pandas as pd

    for rows, names in ((units, OF_UNIT), (runs, OF_MODEL_AND_RUN), (measures, OF_MEASURE)):
        check_cells(rows, names)
    tables = (
        table_frame(list(units), ("id", "run_id", *OF_UNIT)),
        table_frame(list(runs), ("id", *OF_MODEL_AND_RUN)),
        table_frame(list(measures), ("id", *OF_MEASURE)),
    )
    unit, run, measure = tables
    unit_ids, run_ids, measure_ids = (table.pop("id").to_numpy() for table in tables)
    listed = np.isin(numbers.unit, unit_ids) & np.isin(numbers.measure, measure_ids)
    order = np.flatnonzero(listed)[np.argsort(numbers.unit[listed], kind="stable")]
    units_at = np.searchsorted(unit_ids, numbers.unit[order])
    runs_at = np.searchsorted(run_ids, unit.pop("run_id").to_numpy())[units_at]
    measures_at = np.searchsorted(measure_ids, numbers.measure[order])
    columns: dict[str, Any] = {"value": numbers.value[order], "stderr": numbers.stderr[order]}
    for table, places in ((run, runs_at), (unit, units_at), (measure, measures_at)):
        columns |= {str(name): table[name].array.take(places) for name in table}
    return pd.DataFrame({name: columns[name] for name in MetricRow._fields}, copy=False)


def _numbers(units: Sequence[int], of: int, connection: Connection) -> _Numbers:
    """Read all metrics of these units, of `of` that are listed."""
    query: Query = select(Metric.unit_id, Metric.measure_id, Metric.value, Metric.stderr).order_by(Metric.id)
    if 2 * len(units) > of > _AT_ONCE:  # all of them are read sooner than many by name
        return _fetched([query], connection).where_unit(units)
    portions = (units[start : start + _AT_ONCE] for start in range(0, len(units), _AT_ONCE))
    return _fetched([query.where(Metric.unit_id.in_(some)) for some in portions], connection)


def _fetched(queries: Iterable[Query], connection: Connection | None = None) -> _Numbers:
    tables = [np.empty((0, len(_Numbers._fields)))]
    for query in queries:
        assert connection is not None
        cursor = connection.execute(query).cursor
        while rows := cursor.fetchmany(_CHUNK):
            tables.append(np.array(rows, np.float64))  # None becomes NaN
    unit, measure, value, stderr = np.concatenate(tables).T
    return _Numbers(unit.astype(np.int64), measure.astype(np.int64), value.copy(), stderr.copy())
