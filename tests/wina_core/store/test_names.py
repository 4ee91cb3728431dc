"""A database of schema 0006 after the renaming of units, columns and metrics: the same numbers under today's names."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.wina_core.store.test_meanings import OLD
from wina_core.records import MetricRecord
from wina_core.store import Store, schema
from wina_core.store.columns import measure_columns
from wina_core.store.connection import open_engine, parse_url

MEASURES = ("n", "higher_is_better", "version", "num_fewshot", "prompt_hash", "truncated")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "results.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(OLD.read_text(encoding="utf-8"))
    with monkeypatch.context() as patch:
        patch.setattr(schema, "HEAD", "0006")
        engine = open_engine(parse_url(file))
        schema.prepare(engine)
        engine.dispose()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE measures SET task = 'cost', metric = 'full_bytes_saving' WHERE id = 1")
    return file


def read(file: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


def test_units_and_columns_have_todays_names_and_the_same_numbers(file: Path) -> None:
    sparsities = read(file, "SELECT id, counted_sparsity, full_sparsity FROM units ORDER BY id")
    labels = read(file, "SELECT id, arm_label, plan_origin FROM runs ORDER BY id")
    (before,) = read(file, "SELECT count(*) FROM units WHERE unit = 'deviation'")
    assert before[0]
    Store(file).close()
    assert read(file, "SELECT id, gated_sparsity, net_sparsity FROM units ORDER BY id") == sparsities
    assert read(file, "SELECT id, configuration_label, plan_provenance FROM runs ORDER BY id") == labels
    assert read(file, "SELECT count(*) FROM units WHERE unit = 'fidelity'") == [before]
    assert read(file, "SELECT task, metric FROM measures WHERE id = 1") == [("cost", "net_bytes_saving")]


def test_a_renamed_measure_has_the_hash_under_which_a_new_one_is_looked_up(file: Path) -> None:
    Store(file).close()
    columns = ", ".join(("hash", "task", "metric", *MEASURES))
    for digest, task, metric, *values in read(file, f"SELECT {columns} FROM measures"):
        known = dict(zip(MEASURES, values, strict=True))
        known["higher_is_better"] = None if values[1] is None else bool(values[1])
        record = MetricRecord.model_validate({"task": task, "metric": metric, "value": 0.0, **known})
        assert measure_columns(record)["hash"] == digest
