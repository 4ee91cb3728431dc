"""Thousands of runs put into a database as bulk rows: recording them one by one is not what is looked at."""

from collections.abc import Sequence
from itertools import islice, product
from typing import Any

from sqlalchemy import insert, select, update

from wina_core.records import MetricRecord
from wina_core.specs import NO_ROTATION, Configuration, EvaluationSpec, MethodSpec, ModelSource, RotationSpec, RunSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.store.columns import measure_columns
from wina_core.store.connection import open_engine
from wina_core.store.tables import MeasureTable, MetricTable, RunTable, UnitTable

METRICS = tuple(
    (f"{unit} {task}", metric) for unit in ("first", "second") for task in range(5) for metric in ("acc", "acc_norm")
)
"""Task and metric; the unit that reports it is the task's first word."""
_LIMITS = 50


def fill(store: Store, runs: Sequence[RunSpec], metrics: Sequence[tuple[str, str]] = METRICS) -> None:
    """Store runs of one model, each with a unit for every first word of a task and a number for every metric."""
    first = runs[0]
    configuration = Configuration(rotation=first.rotation, method=first.method)
    study = StudySpec(
        name="large",
        models=(first.model,),
        configurations=(configuration,),
        sparsities=(0.5,),
        evaluation=first.evaluation,
    )
    store.save_study(study, runs)
    units: dict[str, list[tuple[str, str]]] = {}
    for task, metric in metrics:
        units.setdefault(task.split()[0], []).append((task, metric))
    engine = open_engine(store.url)
    with engine.execution_options(writing=True).begin() as connection:
        targets = connection.execute(select(RunTable.id, RunTable.target_sparsity)).all()
        rows: list[dict[str, Any]] = [
            {
                "id": number * len(units) + place + 1, "run_id": run, "unit": unit, "seconds": 1.0,
                "finished": 1.7e9 + 60 * number, "gated_sparsity": target, "net_sparsity": 0.98 * target,
            }
            for number, (run, target) in enumerate(targets)
            for place, unit in enumerate(units)
        ]  # fmt: skip
        connection.execute(insert(UnitTable), rows)
        connection.execute(insert(MeasureTable), [measure_columns(_metric(*names)) for names in metrics])
        measures = {(row.task, row.metric): row.id for row in connection.execute(select(MeasureTable))}
        numbers = [
            {
                "unit_id": row["id"], "measure_id": measures[names], "value": (7 * row["id"] + place) % 101 / 101,
                "stderr": 0.01,
            }
            for row in rows
            for place, names in enumerate(units[row["unit"]])
        ]  # fmt: skip
        connection.execute(insert(MetricTable), numbers)
        connection.execute(update(RunTable).values(status="done", finished=1.7e9))
    engine.dispose()


def various_runs(count: int) -> tuple[RunSpec, ...]:
    """Runs of one model that differ in method, rotation, limit and sparsity, as a year of work leaves them."""
    model, tasks = ModelSource(location="synthetic model"), ("first", "second")
    methods = [MethodSpec(name=name) for name in ("wina", "teal", "rsparse", "cats")]
    limits = [EvaluationSpec(tasks=tasks, fidelity=None, limit=100 * (step + 1)) for step in range(_LIMITS)]
    settings = list(product(methods, (NO_ROTATION, RotationSpec()), limits))
    steps = -(-count // len(settings))
    plans = [UniformSparsity(sparsity=(step + 1) / (steps + 1)) for step in range(steps)]
    return tuple(
        RunSpec(model=model, method=method, rotation=rotation, plan=plan, evaluation=evaluation)
        for plan, (method, rotation, evaluation) in islice(product(plans, settings), count)
    )


def _metric(task: str, metric: str) -> MetricRecord:
    return MetricRecord(
        task=task,
        metric=metric,
        value=0.0,
        n=100,
        higher_is_better=True,
        version="1.0",
        num_fewshot=0,
        prompt_hash="0123456789abcdef",
        truncated=0,
    )
