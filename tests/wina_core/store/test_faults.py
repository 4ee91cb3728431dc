"""Values that no version of the program writes are damage of the database; other errors are defects."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.wina_core import samples
from tests.wina_core.store.test_reuse import SAMPLE
from wina_core.errors import WinaError
from wina_core.store import Store


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with one run."""
    run = samples.run()
    with Store(tmp_path / "results.sqlite") as store:
        store.save_study(samples.study(), [run])
        store.record_unit(samples.unit(run).model_copy(update={"samples": (SAMPLE,)}))
        store.record_unit(samples.unit(run, "fidelity"))
    return tmp_path / "results.sqlite"


NO_NUMBER = ("UPDATE metrics SET value = 'high'", "UPDATE runs SET target_sparsity = 'half'")
WINDOW = ("UPDATE metrics SET stderr = x'00'", "UPDATE runs SET plan_provenance = x'ff'", "DELETE FROM models")


@pytest.mark.parametrize(
    ("statement", "read"),
    [
        *((statement, Store.metric_rows) for statement in NO_NUMBER),
        *((statement, Store.metrics) for statement in (*NO_NUMBER, *WINDOW)),
        ("UPDATE measures SET task = CAST(x'ff' AS TEXT)", Store.metrics),
        ("UPDATE runs SET spec = '[1]'", Store.run_details),
        ("UPDATE runs SET spec = '{}'", lambda store: store.run_specs(samples.study().content_hash())),
        ("UPDATE samples SET scores = '{'", lambda store: store.samples(samples.run().content_hash(), "choice")),
    ],
)
def test_a_value_that_no_version_writes_is_damage(file: Path, statement: str, read: Callable[[Store], object]) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)
    with Store(file) as store, pytest.raises(WinaError, match="is damaged"):
        read(store)


def test_a_defect_of_the_program_keeps_its_traceback(file: Path) -> None:
    with Store(file) as store, pytest.raises(TypeError), store._reading():
        raise TypeError("a defect")
