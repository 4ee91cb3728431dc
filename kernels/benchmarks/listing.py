"""Listing and filtering 100,000 stored metrics, against one plain SQLAlchemy query that joins all tables.

A window lists all metrics whenever one more is stored, so what counts is the list made again: of 10,000 units the heads
are compared in Python, and nothing else is read. Expected before it was measured: under 200 ms again and filtered; the
first list some 400 ms, since the driver alone takes 200 ms to make its tuples. Seen: some 80 ms again and filtered, and
0.6 to 1.0 s the first time, a good part of it Python's garbage collector. The bars here are ratios to the plain query.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from comparing import Comparison, Contender, compare
from sqlalchemy import insert, select

from wina_core.specs import Arm, EvaluationSpec, MethodSpec, ModelSource, RunSpec
from wina_core.store import MetricFilter, Store
from wina_core.store.connection import open_engine
from wina_core.store.tables import Metric, Model, Run, Unit
from wina_core.study_specs import StudySpec

UNITS = ("first", "second")
TASKS, METRICS = 5, 2
RUNS = 5_000
SOME = MetricFilter(tasks=("first 1",))


def measure(toy: bool) -> list[Comparison]:
    """On one thread; a database in a temporary folder."""
    runs, repetitions = (20, 1) if toy else (RUNS, 15)
    rows = runs * len(UNITS) * TASKS * METRICS
    with TemporaryDirectory() as folder:
        file = Path(folder) / "results.sqlite"
        with Store(file) as store:
            _fill(store, runs)
            engine = open_engine(store.url)
            plain = Contender("plain query", lambda: _ready(lambda: _expect(rows, _plain(engine))))
            ways = [
                Contender("the first time", lambda: _anew(file, rows)),
                Contender("again", lambda: _ready(lambda: _expect(rows, store.metric_rows())), 0.25),
                Contender("one task", lambda: _ready(lambda: _expect(rows // 10, store.metric_rows(SOME))), 0.25),
            ]
            setting: dict[str, float | int | str] = {"metrics": rows, "runs": runs, "threads": 1}
            found = compare(plain, ways, repetitions, setting)
            engine.dispose()
    return [found]


def _fill(store: Store, count: int) -> None:
    """Runs with their units and metrics, as bulk rows: recording them one by one is not what is measured."""
    evaluation = EvaluationSpec(tasks=UNITS, deviation=None)
    model, arms = ModelSource(location="synthetic model"), (Arm(method=MethodSpec(name="wina")),)
    sparsities = tuple(index / (count + 1) for index in range(count))
    study = StudySpec(name="large", models=(model,), arms=arms, sparsities=sparsities, evaluation=evaluation)
    specs = tuple(
        RunSpec(model=model, method=arms[0].method, plan={"kind": "uniform", "sparsity": each}, evaluation=evaluation)
        for each in sparsities
    )
    store.save_study(study, specs)
    engine = open_engine(store.url)
    with engine.execution_options(writing=True).begin() as connection:
        ids = connection.scalars(select(Run.id)).all()
        units: list[dict[str, Any]] = [
            {"id": number + 1, "run_id": ids[number // 2], "unit": UNITS[number % 2], "seconds": 1.0, "finished": 1.0}
            for number in range(len(ids) * len(UNITS))
        ]
        connection.execute(insert(Unit), units)
        metrics = [
            {
                "unit_id": unit["id"],
                "task": f"{unit['unit']} {task}",
                "metric": ("acc", "acc_norm")[metric],
                "value": task / 10,
                "stderr": 0.01,
                "n": 100,
                "higher_is_better": True,
                "version": "1.0",
                "num_fewshot": 0,
                "prompt_hash": "0123456789abcdef",
                "truncated": 0,
            }
            for unit in units
            for task in range(TASKS)
            for metric in range(METRICS)
        ]
        connection.execute(insert(Metric), metrics)
    engine.dispose()


def _plain(engine: Any) -> list[Any]:
    columns = [
        Run.hash, Model.label, Run.rotation_label, Run.method_label, Run.selection, Run.plan_origin,
        Run.target_sparsity, Unit.counted_sparsity, Unit.full_sparsity, Metric.task, Metric.metric, Metric.value,
        Metric.stderr, Metric.n, Metric.higher_is_better, Metric.version, Metric.num_fewshot, Metric.prompt_hash,
        Metric.truncated, Run.settings, Run.status, Unit.finished, Model.hash, Unit.unit,
    ]  # fmt: skip
    query: Any = (
        select(*columns)
        .select_from(Metric)
        .join(Unit, Unit.id == Metric.unit_id)
        .join(Run, Run.id == Unit.run_id)
        .join(Model, Model.id == Run.model_id)
        .order_by(Metric.id)
    )
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query)]


def _expect(count: int, rows: list[Any]) -> None:
    if len(rows) != count:
        raise RuntimeError(f"{len(rows)} rows were listed, not {count}")


@contextmanager
def _ready(work: Callable[[], None]) -> Iterator[Callable[[], None]]:
    yield work


@contextmanager
def _anew(file: Path, rows: int) -> Iterator[Callable[[], None]]:
    with Store(file) as store:
        yield lambda: _expect(rows, store.metric_rows())
