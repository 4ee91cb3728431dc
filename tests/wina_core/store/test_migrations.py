"""Databases of earlier schemas, upgraded with all their values."""

import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from tests.wina_core.samples import ENVIRONMENT, MODEL, run, study, timed, unit
from tests.wina_core.store.test_opening import table_definitions
from wina_core.records import DecodeRecord
from wina_core.specs import CalibrationSpec, MethodSpec, RotationSpec
from wina_core.specs.latency import DecodePoint, LatencyPoint
from wina_core.store import Store, upgrade
from wina_core.store.connection import open_engine, parse_url
from wina_core.store.timings import TimedRow

TIMINGS_0017 = """
DROP TABLE latency;
DROP TABLE decoding;
CREATE TABLE latency (
    id {id} NOT NULL, hash TEXT NOT NULL, environment_id {integer} NOT NULL, spec TEXT NOT NULL, op TEXT NOT NULL,
    outputs {integer} NOT NULL, inputs {integer} NOT NULL, batch {integer} NOT NULL, dtype TEXT NOT NULL,
    method TEXT NOT NULL, selection TEXT NOT NULL, sparsity {real} NOT NULL, backend TEXT NOT NULL,
    repetitions {integer} NOT NULL, measured_sparsity {real} NOT NULL, read_bytes {real} NOT NULL,
    median_ms {real} NOT NULL, p10_ms {real} NOT NULL, p90_ms {real} NOT NULL, dense_ms {real} NOT NULL,
    speedup {real} NOT NULL, gigabytes_per_second {real} NOT NULL, bandwidth {real} NOT NULL,
    roofline {real} NOT NULL, recorded {real} NOT NULL,
    CONSTRAINT pk_latency PRIMARY KEY (id),
    CONSTRAINT uq_latency_hash_environment_id UNIQUE (hash, environment_id),
    CONSTRAINT fk_latency_environment_id FOREIGN KEY(environment_id) REFERENCES environments (id)
);
CREATE TABLE decoding (
    id {id} NOT NULL, hash TEXT NOT NULL, environment_id {integer} NOT NULL, model_id {integer} NOT NULL,
    spec TEXT NOT NULL, rotation_label TEXT NOT NULL, method_label TEXT NOT NULL, selection TEXT NOT NULL,
    sparsity {real} NOT NULL, measured_sparsity {real} NOT NULL, prompt_tokens {integer} NOT NULL,
    new_tokens {integer} NOT NULL, repetitions {integer} NOT NULL, tokens_per_second {real} NOT NULL,
    p10 {real} NOT NULL, p90 {real} NOT NULL, dense_tokens_per_second {real} NOT NULL, speedup {real} NOT NULL,
    recorded {real} NOT NULL, batch {integer} DEFAULT '1' NOT NULL, dense_p10 {real}, dense_p90 {real},
    prefill_tokens_per_second {real}, prefill_p10 {real}, prefill_p90 {real},
    dense_prefill_tokens_per_second {real}, dense_prefill_p10 {real}, dense_prefill_p90 {real},
    held_bytes {integer}, dense_held_bytes {integer}, peak_bytes {integer}, decoder TEXT, turns {integer},
    timed_tokens {integer},
    CONSTRAINT pk_decoding PRIMARY KEY (id),
    CONSTRAINT uq_decoding_hash_environment_id UNIQUE (hash, environment_id),
    CONSTRAINT fk_decoding_environment_id FOREIGN KEY(environment_id) REFERENCES environments (id),
    CONSTRAINT fk_decoding_model_id FOREIGN KEY(model_id) REFERENCES models (id)
)
"""
PRODUCT = timed(
    LatencyPoint(
        outputs=64, inputs=48, batch=2, dtype="float32", method="wina", selection="topk", sparsity=0.1 + 0.2,
        backend="cpu", repetitions=3,
    )
).model_copy(update={"op": "q, ü", "read_bytes": 1e23 / 3, "median_ms": 0.1})  # fmt: skip
OLDER = DecodeRecord(
    point=DecodePoint(
        model=MODEL, rotation=RotationSpec(mode="global"), method=MethodSpec(name="teal"), sparsity=0.5, batch=4
    ),
    environment=ENVIRONMENT,
    measured_sparsity=0.49,
    tokens_per_second=100 / 3,
    p10=28.0,
    p90=31.0,
    dense_tokens_per_second=20.1,
)
LATER = OLDER.model_copy(
    update={
        "point": OLDER.point.model_copy(update={"budget_seconds": 45.0}),
        **dict.fromkeys(("dense_p10", "dense_p90", "prefill_tokens_per_second", "prefill_p10", "prefill_p90"), 1 / 3),
        **dict.fromkeys(("dense_prefill_tokens_per_second", "dense_prefill_p10", "dense_prefill_p90"), 2 / 3),
        **dict.fromkeys(("held_bytes", "dense_held_bytes", "peak_bytes"), 2**40 + 1),
        "decoder": "compiled; dense: é",
        "turns": 2,
        "timed_tokens": 7,
    }
)


def to_schema_0017(file: Path) -> None:
    """Give a file without timings the tables of schema 0017."""
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executescript(TIMINGS_0017.format(id="INTEGER", integer="INTEGER", real="DOUBLE"))
        connection.execute(f"UPDATE {upgrade.VERSION_TABLE} SET version_num = '0017'")


def _insert(connection: Connection, table: str, row: dict[str, object]) -> None:
    parameters = ", ".join(f":{name}" for name in row)
    connection.execute(text(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({parameters})"), row)


@pytest.fixture
def with_timings(address: str) -> str:
    """The address of a database of schema 0017 with timings."""
    with Store(address) as store:
        store.record_decoding(LATER)  # and with it its model and environment
    engine = open_engine(parse_url(address))
    kinds = {"id": "INTEGER", "integer": "INTEGER", "real": "DOUBLE"}
    if engine.dialect.name == "postgresql":
        kinds = {"id": "BIGSERIAL", "integer": "BIGINT", "real": "DOUBLE PRECISION"}
    with engine.begin() as connection:
        (model,) = connection.execute(text("SELECT id FROM models")).scalars()
        (environment,) = connection.execute(text("SELECT id FROM environments")).scalars()
        for statement in TIMINGS_0017.format(**kinds).split(";"):
            connection.execute(text(statement))
        connection.execute(text(f"UPDATE {upgrade.VERSION_TABLE} SET version_num = '0017'"))
        for record in (PRODUCT, OLDER, LATER):
            point = record.point
            row = {
                "hash": point.content_hash(),
                "environment_id": environment,
                "spec": point.model_dump_json(),
                "speedup": record.speedup,
                "recorded": 1e9 + 0.1,
                **record.model_dump(exclude={"point", "environment"}),
            }
            if isinstance(point, LatencyPoint):
                row |= point.model_dump(exclude={"schema_version"})
                row |= {"gigabytes_per_second": PRODUCT.gigabytes_per_second, "roofline": PRODUCT.roofline}
                _insert(connection, "latency", row)
            else:
                row |= {"model_id": model, "rotation_label": "a rotation", "method_label": "a method"}
                row |= point.model_dump(include={"sparsity", "prompt_tokens", "new_tokens", "repetitions", "batch"})
                _insert(connection, "decoding", row | {"selection": point.method.selection})
    engine.dispose()
    return address


def test_timings_of_schema_0017_are_read_with_all_values(with_timings: str) -> None:
    with Store(with_timings) as store:
        products, models = store.latency_rows(), store.decode_rows()
        assert [row.record for row in products] == [PRODUCT]
        assert [row.record for row in models] == [OLDER, LATER]
        rows: list[TimedRow[Any]] = [*products, *models]
        assert {row.recorded for row in rows} == {1e9 + 0.1}
        assert {(row.model, row.rotation, row.method) for row in models} == {("small llama", "a rotation", "a method")}
        assert not any(row.superseded for row in rows)
        points = {PRODUCT.point.content_hash(), LATER.point.content_hash()}
        assert {name for names in store.measured_points(points).values() for name in names} == points
        store.record_latency(PRODUCT.model_copy(update={"speedup": 3.0}))
        assert [row.record.speedup for row in store.latency_rows()] == [3.0], "it takes the place of the upgraded one"


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_an_upgraded_database_has_the_tables_of_a_fresh_one(with_timings: str, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh.sqlite"
    for address in (with_timings, fresh):
        with closing(Store(address)):
            pass
    assert table_definitions(Path(with_timings)) == table_definitions(fresh)


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_an_unreadable_timing_goes_and_an_infinite_number_stays(with_timings: str) -> None:
    with closing(sqlite3.connect(with_timings)) as connection, connection:
        connection.execute("UPDATE latency SET spec = '{' ")
        connection.execute("UPDATE decoding SET p90 = 9e999")
    with Store(with_timings) as store:
        assert store.latency_rows() == []
        assert {row.record.p90 for row in store.decode_rows()} == {math.inf}


def test_runs_of_quantized_models_that_were_measured_wrongly_are_superseded(address: str) -> None:
    """They scored BOS, or counted replaced inputs as read."""
    plain = [MODEL.model_copy(update={"bos": bos}) for bos in (False, True)]
    quantized = [model.model_copy(update={"quantization": "int4"}) for model in plain]
    right = [run().model_copy(update={"model": model}) for model in (*plain, quantized[0])]
    runs = [*right, run().model_copy(update={"model": quantized[1]})]
    for name, correction in (("scap", "none"), ("wina", "mean")):
        method = MethodSpec(name=name, selection="threshold", correction=correction)
        runs.append(
            run().model_copy(update={"model": quantized[0], "method": method, "calibration": CalibrationSpec()})
        )
    with Store(address) as store:
        store.save_study(study(), runs)
        for spec in runs:
            store.record_unit(unit(spec))
    engine = open_engine(parse_url(address))
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {upgrade.VERSION_TABLE} SET version_num = '0018'"))
    engine.dispose()
    with Store(address) as store:
        warnings = [row.warning for row in store.metric_rows()]
        assert ["BOS" in warning for warning in warnings] == [False, False, False, True, False, False]
        assert ["replaces" in warning for warning in warnings] == [False, False, False, False, True, True]
        again = [pending.spec for pending in store.pending(runs) if "choice" in pending.units]
        assert again == runs[3:], "they are measured again"


def test_a_file_without_tables_is_not_upgraded(tmp_path: Path) -> None:
    file = tmp_path / "begun.sqlite"
    file.touch()
    upgrade.upgrade_file(file)
    assert file.stat().st_size == 0, "what was never begun holds no results, which a merge says"
