"""Timings in the results database."""

import pytest

from tests.wina_core.analysis.comparison.test_worth import timed as timed_model
from tests.wina_core.samples import ENVIRONMENT, MODEL, timed
from wina_core.errors import WinaError
from wina_core.jobs import DecodeJob, Done, LatencyJob, Measured, Result
from wina_core.records import DecodeRecord, Environment, SweepReport
from wina_core.specs.latency import DecodePoint, DecodeSpec, LatencySpec, Shape
from wina_core.store import Recorder, Store

SPEC = LatencySpec(shapes=(Shape(outputs=64, inputs=48),), batches=(1,), backends=("reference",), dense_products=())
BATCHES = DecodeSpec(model=MODEL, sparsities=(0.0, 0.5), batches=(1, 4))
ELSEWHERE = Environment(device="cuda", hardware="a GPU", versions={"torch": "2.13.0"})


def decoded(point: DecodePoint) -> DecodeRecord:
    dense = dict.fromkeys(("dense_tokens_per_second", "dense_p10", "dense_p90"), 20.0)
    return timed_model(point, 30.0, ENVIRONMENT, p10=28.0, p90=31.0, **dense)


def test_the_best_dense_product_and_the_stability_of_a_point_are_read_with_it(store: Store) -> None:
    spec = SPEC.model_copy(update={"dense_products": ("int8",), "sparsities": (0.5,)})
    steady = {"p10_ms": 2.0, "p90_ms": 2.2}
    torch, int8, wina = (timed(point).model_copy(update=steady) for point in spec.points())
    store.record_latency(torch)
    store.record_latency(wina)
    assert [(row.best_dense, row.best_speedup, row.stable) for row in store.latency_rows()] == [("", None, True)] * 2
    store.record_latency(int8.model_copy(update={"speedup": 2.0, "median_ms": 1.0, "p10_ms": 1.0, "p90_ms": 1.3}))
    rows = {row.record.point.backend: row for row in store.latency_rows()}
    assert {row.best_dense for row in rows.values()} == {"int8"}
    assert rows["reference"].best_speedup == wina.speedup / 2.0
    assert (rows["int8"].record.spread, rows["int8"].stable, rows["reference"].stable) == (1.3, False, True)
    store.record_latency(wina.model_copy(update={"dense_ms": 1.3 * wina.dense_ms}))
    drifted = {row.record.point.backend: row for row in store.latency_rows()}["reference"]
    assert (round(drifted.drift, 6), drifted.stable) == (1.3, False)
    assert store.latency_rows(ELSEWHERE.key) == []


def test_runs_that_disagree_make_a_point_unstable_whichever_model_they_are_of(store: Store) -> None:
    quiet, shaken, beside = (decoded(point) for point in DecodeSpec(model=MODEL, sparsities=(0.0, 0.25, 0.5)).points())
    store.record_decoding(quiet)
    store.record_decoding(shaken.model_copy(update={"p10": 20.0, "p90": 30.0}))
    store.record_decoding(beside.model_copy(update={"dense_p10": 16.0, "dense_p90": 20.0}))
    rows = store.decode_rows()
    assert [row.stable for row in rows] == [True, False, False]
    spreads = [(row.record.spread, row.record.dense_spread) for row in rows[1:]]
    assert spreads == [(1.5, 1.0), (31.0 / 28.0, 1.25)]


def test_points_are_stored_as_they_arrive_once_for_each_environment(store: Store) -> None:
    first, second = SPEC.points()[:2]
    recorder = Recorder(store, LatencyJob(spec=SPEC), ENVIRONMENT)
    recorder.record(Measured(job_id="1", record=timed(first)))
    assert [row.point for row in store.latency_rows()] == [first.content_hash()]
    for record in (timed(second), timed(first, median=4.0), timed(first, ELSEWHERE)):
        recorder.record(Measured(job_id="1", record=record))
    report = SweepReport(environment=ENVIRONMENT, measured=3, stored=0, bandwidth=8.0)
    recorder.record(Result(job_id="1", value=report))
    recorder.record(Done(job_id="1"))
    rows = store.latency_rows(ENVIRONMENT.key)
    assert [row.record for row in rows] == [timed(first, median=4.0), timed(second)]
    assert (rows[0].record.gigabytes_per_second, rows[0].record.roofline) == (2.0, 0.25)
    assert store.latency_rows(points={second.content_hash()}) == [rows[1]]
    assert len(store.latency_rows()) == 3
    assert store.measured_points(SPEC.hashes()) == {
        ENVIRONMENT.key: (first.content_hash(), second.content_hash()),
        ELSEWHERE.key: (first.content_hash(),),
    }
    assert store.measured_points(()) == {}


def test_decoding_is_compared_with_our_kernels_at_zero_at_each_batch(store: Store) -> None:
    speeds = {(0.5, 1): 44.0, (0.5, 4): 33.0, (0.0, 1): 22.0, (0.0, 4): 30.0}
    points = {(point.sparsity, point.batch): point for point in BATCHES.points()}
    recorder = Recorder(store, DecodeJob(spec=BATCHES), ENVIRONMENT)
    for count, (key, speed) in enumerate(speeds.items(), 1):
        record = decoded(points[key]).model_copy(update={"tokens_per_second": speed})
        recorder.record(Measured(job_id="1", record=record))
        if count == 2:
            assert [row.best_speedup for row in store.decode_rows()] == [None, None], "nothing is timed at zero"
    rows = store.decode_rows(ENVIRONMENT.key, BATCHES.hashes())
    assert {(row.model, row.rotation, row.method, row.selection) for row in rows} == {
        ("small llama", "none", "wina", "topk")
    }
    assert [round(row.best_speedup or 0, 6) for row in rows] == [2.0, 1.1, 1.0, 1.0]
    assert store.decode_rows(ELSEWHERE.key) == store.decode_rows(points=()) == []
    assert set(store.measured_points(BATCHES.hashes())[ENVIRONMENT.key]) == BATCHES.hashes()


def test_a_record_that_this_version_cannot_read_is_left_out_and_one_without_json_is_told(file_store: Store) -> None:
    first, second = SPEC.points()[:2]
    for point in (first, second):
        file_store.record_latency(timed(point))
    with file_store._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE latency SET record = json_set(record, '$.point.backend', 'x') WHERE id = 1")
    assert [row.point for row in file_store.latency_rows()] == [second.content_hash()]
    assert file_store.measured_points(SPEC.hashes()) == {ENVIRONMENT.key: (second.content_hash(),)}
    with file_store._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE latency SET record = 'x' WHERE id = 1")
    with pytest.raises(WinaError, match="is damaged"):
        file_store.latency_rows()
