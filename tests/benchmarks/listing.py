"""Listing 100,000 stored metrics as a DataFrame, with pandas imported: the first time, again, and filtered.

A window lists all metrics whenever one more is stored, so what counts most is the list made again: the runs and units
are read and compared, and no number is read that was read before. Bars: 0.20 s, 60 ms and 60 ms; "one more" is the list
after a run has brought new numbers. The baseline is one plain query that joins all tables, row by row.
"""

from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd  # noqa: F401 - not to be timed
from comparing import Contender, TimingComparison, compare, ready
from large_store import METRICS, fill
from sqlalchemy import update

from wina_core.specs import EvaluationSpec, MethodSpec, ModelSource, RunSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.store import MetricFilter, Store
from wina_core.store.connection import open_engine
from wina_core.store.tables import UnitTable

RUNS = 5_000
SOME = MetricFilter(tasks=("first 1",))


def measure(toy: bool) -> list[TimingComparison]:
    """On one thread; a database in a temporary folder."""
    runs, repetitions = (20, 1) if toy else (RUNS, 15)
    rows = runs * len(METRICS)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "results.sqlite"
        with Store(file) as store:
            fill(store, _runs(runs))
            plain = ready("plain query", lambda: _expect(rows, store.metric_rows()))
            ways = [
                Contender("the first time", lambda: _anew(file, rows)),
                ready("again", lambda: _expect(rows, store.metrics()), 0.25),
                ready("one task", lambda: _expect(rows // 10, store.metrics(SOME)), 0.25),
                Contender("one more", lambda: _one_more(store, rows), 0.5),
            ]
            setting: dict[str, float | int | str] = {"metrics": rows, "runs": runs, "threads": 1}
            found = compare(plain, ways, repetitions, setting)
    return [found]


def _runs(count: int) -> list[RunSpec]:
    model, evaluation = (
        ModelSource(location="synthetic model"),
        EvaluationSpec(tasks=("first", "second"), fidelity=None),
    )
    plans = [UniformSparsity(sparsity=index / (count + 1)) for index in range(count)]
    return [RunSpec(model=model, method=MethodSpec(name="wina"), plan=plan, evaluation=evaluation) for plan in plans]


def _expect(count: int, rows: Sized) -> None:
    if len(rows) != count:
        raise RuntimeError(f"{len(rows)} rows were listed, not {count}")


@contextmanager
def _anew(file: Path, rows: int) -> Iterator[Callable[[], None]]:
    with Store(file) as store:
        yield lambda: _expect(rows, store.metrics())


@contextmanager
def _one_more(store: Store, rows: int) -> Iterator[Callable[[], None]]:
    engine = open_engine(store.url)
    with engine.execution_options(writing=True).begin() as connection:
        connection.execute(update(UnitTable).where(UnitTable.id == 1).values(finished=UnitTable.finished + 1))
    engine.dispose()
    yield lambda: _expect(rows, store.metrics())
