"""Listing stored metrics, of which there may be hundreds of thousands, again and again while a study is computed."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Select, select

from wina_core.store.rows import MetricFilter, MetricRow
from wina_core.store.tables import Metric, Model, Run, Study, StudyRun, Unit

Query = Select[*tuple[Any, ...]]
_AT_ONCE = 500
"""Ids in one query; databases bound how many values one takes, old SQLite to 999."""
_BEFORE = MetricRow._fields.index("task")
_OF_METRIC = (
    Metric.task, Metric.metric, Metric.value, Metric.stderr, Metric.n, Metric.higher_is_better, Metric.version,
    Metric.num_fewshot, Metric.prompt_hash, Metric.truncated,
)  # fmt: skip
_VALUE, _BETTER = _OF_METRIC.index(Metric.value), _OF_METRIC.index(Metric.higher_is_better)

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
        heads: dict[int, Head] = {unit: tuple(head) for unit, *head in connection.execute(_heads(wanted))}
        known = self._known
        unknown = [unit for unit, head in heads.items() if known.get(unit, (None,))[0] != head]
        fresh: dict[int, tuple[Head, list[MetricRow]]] = {unit: (heads[unit], []) for unit in unknown}
        parts = {unit: (head[:_BEFORE], head[_BEFORE:], rows) for unit, (head, rows) in fresh.items()}
        for metric in _read(unknown, len(heads), connection):
            if metric[0] in parts:
                before, after, rows = parts[metric[0]]
                rows.append(MetricRow._make(before + metric[1:] + after))
        known.update(fresh)  # at once: others may be listing
        tasks, metrics = frozenset(wanted.tasks), frozenset(wanted.metrics)
        return [
            row
            for unit in heads
            for row in known[unit][1]
            if (not tasks or row.task in tasks) and (not metrics or row.metric in metrics)
        ]


def _heads(wanted: MetricFilter) -> Query:
    """Id and shared fields of the units that may have wanted metrics."""
    query: Query = (
        select(
            Unit.id, Run.hash, Model.label, Run.rotation_label, Run.method_label, Run.selection, Run.plan_origin,
            Run.target_sparsity, Unit.counted_sparsity, Unit.full_sparsity, Run.settings, Run.status, Unit.finished,
            Model.hash, Unit.unit, Run.chosen_on_evaluation,
        )
        .join(Run, Run.id == Unit.run_id)
        .join(Model, Model.id == Run.model_id)
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


def _read(units: Sequence[int], of: int, connection: Connection) -> Iterator[tuple[Any, ...]]:
    """Unit and metric columns of all metrics of these units, and, where they are most of all `of`, of others too."""
    query = select(Metric.unit_id, *_OF_METRIC).order_by(Metric.id)
    whole = 2 * len(units) > of > _AT_ONCE
    queries = [query] if whole else [query.where(Metric.unit_id.in_(some)) for some in _portions(units)]
    for each in queries:
        # Straight from the driver: its rows by the hundred thousand, and two columns of them that need a look.
        for row in connection.execute(each).cursor.fetchall():
            if row[_VALUE + 1] is None or row[_BETTER + 1] is not None:
                values = list(row)
                values[_VALUE + 1] = math.nan if row[_VALUE + 1] is None else row[_VALUE + 1]
                values[_BETTER + 1] = None if row[_BETTER + 1] is None else bool(row[_BETTER + 1])
                yield tuple(values)
            else:
                yield row


def _portions(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))
