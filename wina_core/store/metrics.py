"""Listing stored metrics, of which there may be hundreds of thousands, again and again while a study is computed."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Select, select

from wina_core.results.gc_control import no_garbage_collected
from wina_core.store.rows import MetricFilter, MetricRow
from wina_core.store.tables import Measure, Metric, Model, Run, Study, StudyRun, Unit

Query = Select[*tuple[Any, ...]]
_AT_ONCE = 500
"""Ids in one query; databases bound how many values one takes, old SQLite to 999."""
_BEFORE = MetricRow._fields.index("task")

Head = tuple[Any, ...]
"""A row's fields before and after those of the metric, which all metrics of a unit share."""


class MetricRows:
    """The rows of the units that were listed before, so that only new and changed ones are read again.

    A unit is stored as a whole, and another finished at another time, so its head tells whether its rows still hold.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Head, list[MetricRow]]] = {}

    def list(self, wanted: MetricFilter, connection: Connection) -> list[MetricRow]:
        """The wanted rows in the order in which they arrived."""
        with no_garbage_collected():
            heads: dict[int, Head] = {row[0]: row[1:] for row in _driver_rows(connection, _heads(wanted))}
            known = self._known
            unknown = {unit: head for unit, head in heads.items() if known.get(unit, (None,))[0] != head}
            if unknown:
                known.update(_read(unknown, len(heads), connection))  # at once: others may be listing
            rows: Iterator[MetricRow] = chain.from_iterable(known[unit][1] for unit in heads)
            if wanted.tasks:
                rows = filter(lambda row: row.task in wanted.tasks, rows)
            if wanted.metrics:
                rows = filter(lambda row: row.metric in wanted.metrics, rows)
            return list(rows)


def _read(heads: dict[int, Head], of: int, connection: Connection) -> dict[int, tuple[Head, list[MetricRow]]]:
    """The units of these heads with their rows; they are some or all of the `of` units that are listed."""
    found: dict[int, tuple[Head, list[MetricRow]]] = {unit: (head, []) for unit, head in heads.items()}
    parts = {unit: (head[:_BEFORE], head[_BEFORE:], rows.append) for unit, (head, rows) in found.items()}
    numbers = _numbers(list(heads), of, connection)
    measures = {measure: (names, asked) for measure, names, asked in _measures(connection)}
    row, nan = tuple.__new__, math.nan  # a third of the time of MetricRow._make
    last, part = None, None
    for unit, measure, value, stderr in numbers:
        if unit != last:  # the metrics of a unit lie together
            last, part = unit, parts.get(unit)
        if part is not None:
            before, after, add = part
            names, asked = measures[measure]
            add(row(MetricRow, (*before, *names, nan if value is None else value, stderr, *asked, *after)))
    return found


def _heads(wanted: MetricFilter) -> Query:
    """Id and shared fields of the units that may have wanted metrics."""
    query: Query = (
        select(
            Unit.id, Run.hash, Model.label, Run.rotation_label, Run.method_label, Run.selection, Run.plan_origin,
            Run.target_sparsity, Unit.counted_sparsity, Unit.full_sparsity, Run.settings, Run.status, Unit.finished,
            Model.hash, Unit.unit, Run.chosen_on_evaluation, Unit.seconds, Run.superseded,
        )
        .join(Run, Run.id == Unit.run_id)
        .join(Model, Model.id == Run.model_id)
        .where(Run.deleted.is_(None))
        .order_by(Unit.id)
    )  # fmt: skip
    if wanted.study:
        query = query.join(StudyRun, StudyRun.run_id == Run.id).join(Study, Study.id == StudyRun.study_id)
        query = query.where(Study.hash == wanted.study)
    for column, values in (
        (Run.hash, wanted.runs),
        (Model.hash, wanted.models),
        (Run.rotation_label, wanted.rotations),
        (Run.method_label, wanted.methods),
        (Run.selection, wanted.selections),
        (Run.status, wanted.statuses),
    ):
        if values:
            query = query.where(column.in_(values))
    return query


def _measures(connection: Connection) -> Iterator[tuple[int, tuple[str, str], tuple[Any, ...]]]:
    """Id of each measure, and a row's fields before and after value and standard error."""
    query = select(
        Measure.id, Measure.task, Measure.metric, Measure.n, Measure.higher_is_better, Measure.version,
        Measure.num_fewshot, Measure.prompt_hash, Measure.truncated,
    )  # fmt: skip
    for measure, task, metric, *asked in connection.execute(query):
        yield measure, (task, metric), tuple(asked)


def _numbers(units: Sequence[int], of: int, connection: Connection) -> list[tuple[Any, ...]]:
    """Unit, measure, value and standard error of all metrics of these units, and, where they are most of all `of`, of
    others too."""
    query = select(Metric.unit_id, Metric.measure_id, Metric.value, Metric.stderr).order_by(Metric.id)
    whole = 2 * len(units) > of > _AT_ONCE
    queries = [query] if whole else [query.where(Metric.unit_id.in_(some)) for some in _portions(units)]
    return list(chain.from_iterable(_driver_rows(connection, each) for each in queries))


def _driver_rows(connection: Connection, query: Query) -> Sequence[Any]:
    """As the driver has them: there are hundreds of thousands."""
    return connection.execute(query).cursor.fetchall()


def _portions(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))
