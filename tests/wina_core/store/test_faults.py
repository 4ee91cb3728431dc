"""A value that its column cannot hold is named with its place, wherever it is read first."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.wina_core import samples
from wina_core.errors import WinaError
from wina_core.records.texts import UNKNOWN, moment
from wina_core.store import Store


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with one run."""
    run = samples.run()
    with Store(tmp_path / "results.sqlite") as store:
        store.save_study(samples.study(), [run])
        store.record_unit(samples.unit(run))
        store.record_unit(samples.unit(run, "fidelity"))
    return tmp_path / "results.sqlite"


def _change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("UPDATE metrics SET value = 'high'", "row 1 of its table metrics has the value 'high'"),
        ("UPDATE metrics SET stderr = x'00'", "row 1 of its table metrics has the stderr"),
        ("UPDATE units SET seconds = 'long' WHERE id = 2", "row 2 of its table units has the seconds 'long'"),
        ("UPDATE runs SET target_sparsity = 'half'", "row 1 of its table runs has the target_sparsity 'half'"),
        ("UPDATE measures SET n = 'many'", "row 1 of its table measures has the n 'many'"),
        ("UPDATE runs SET plan_provenance = x'ff'", "row 1 of its table runs has the plan_provenance"),
        ("DELETE FROM models", "row 1 of its table runs names a row of models that is missing"),
        ("UPDATE measures SET task = CAST(x'ff' AS TEXT)", "not UTF-8"),
    ],
)
@pytest.mark.parametrize("read", [Store.metric_rows, Store.metrics], ids=["command line", "window"])
def test_a_damaged_cell_is_named(file: Path, statement: str, fault: str, read: Callable[[Store], object]) -> None:
    _change(file, statement)
    with Store(file) as store:
        if read is Store.metric_rows and ("plan_provenance" in statement or "DELETE" in statement):
            pytest.skip("the command line shows what is there")
        with pytest.raises(WinaError, match="is damaged") as refused:
            read(store)
        assert fault in str(refused.value)


def test_a_spec_that_is_none_is_named(file: Path) -> None:
    _change(file, "UPDATE runs SET spec = '[1]'")
    with Store(file) as store, pytest.raises(WinaError, match=r"row 1 of its table runs has the spec '\[1\]'"):
        store.run_details()
    _change(file, "UPDATE runs SET spec = '{}'")
    with Store(file) as store, pytest.raises(WinaError, match="is damaged"):
        store.run_specs(samples.study().content_hash())


def test_a_defect_of_the_program_keeps_its_traceback(file: Path) -> None:
    with Store(file) as store, pytest.raises(TypeError), store._reading():
        raise TypeError("a defect")


def test_a_number_that_is_no_time_is_unknown() -> None:
    assert moment(1e300) == moment(float("nan")) == moment(float("inf")) == UNKNOWN
