"""Listing and filtering 100,000 stored metrics, against one plain SQLAlchemy query that joins all tables.

A window lists all metrics whenever one more is stored, so what counts most is the list made again: of 10,000 units the
heads are compared in Python, and nothing else is read. Expected of keeping apart what metrics measured, in few rows of
texts, from their numbers: the first list in 0.2 s, of which the driver takes 60 ms, where it took 0.6 s with the texts
in every row. Seen: 0.22 s, and 0.05 s again and filtered. The bars here are ratios to the plain query.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from comparing import Comparison, Contender, compare
from large_store import METRICS, fill
from sqlalchemy import select

from wina_core.specs import EvaluationSpec, MethodSpec, ModelSource, RunSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.store import MetricFilter, Store
from wina_core.store.connection import open_engine
from wina_core.store.tables import Measure, Metric, Model, Run, Unit

RUNS = 5_000
SOME = MetricFilter(tasks=("first 1",))


def measure(toy: bool) -> list[Comparison]:
    """On one thread; a database in a temporary folder."""
    runs, repetitions = (20, 1) if toy else (RUNS, 15)
    rows = runs * len(METRICS)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "results.sqlite"
        with Store(file) as store:
            fill(store, _runs(runs))
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


def _runs(count: int) -> list[RunSpec]:
    model, evaluation = (
        ModelSource(location="synthetic model"),
        EvaluationSpec(tasks=("first", "second"), deviation=None),
    )
    plans = [UniformSparsity(sparsity=index / (count + 1)) for index in range(count)]
    return [RunSpec(model=model, method=MethodSpec(name="wina"), plan=plan, evaluation=evaluation) for plan in plans]


def _plain(engine: Any) -> list[Any]:
    columns = [
        Run.hash, Model.label, Run.rotation_label, Run.method_label, Run.selection, Run.plan_origin,
        Run.target_sparsity, Unit.counted_sparsity, Unit.full_sparsity, Measure.task, Measure.metric, Metric.value,
        Metric.stderr, Measure.n, Measure.higher_is_better, Measure.version, Measure.num_fewshot, Measure.prompt_hash,
        Measure.truncated, Run.settings, Run.status, Unit.finished, Model.hash, Unit.unit, Run.chosen_on_evaluation,
        Unit.seconds, Run.superseded,
    ]  # fmt: skip
    query: Any = (
        select(*columns)
        .select_from(Metric)
        .join(Measure, Measure.id == Metric.measure_id)
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
