"""The table "Will it pay here?": one row a configuration and machine, from timings and imported peers."""

from pathlib import Path

import pytest

from tests.wina_core.samples import MODEL
from wina_core.analysis.comparison.worth import BATCHES, COLUMNS, missing_specs, table_row, worth_rows, worth_spec
from wina_core.records import DecodeRecord, Environment
from wina_core.specs import MethodSpec
from wina_core.specs.latency import DecodePoint, DecodeSpec
from wina_core.store import Store
from wina_core.store.imported.candidate import read_import

HERE = Environment(device="cpu", hardware="Intel(R) Xeon(R) Processor, 2 of 2 threads", versions={"torch": "2"})
ELSEWHERE = Environment(device="cuda", hardware="a GPU", versions={})
INT4 = MODEL.model_copy(update={"quantization": "int4"})
BENCH, _ = read_import(Path(__file__).parents[2] / "store" / "imported" / "data" / "bench.json")


def timed(point: DecodePoint, speed: float, environment: Environment = HERE, **changes: object) -> DecodeRecord:
    """Decoding at this speed with a spread of 1 %, beside a dense model of 100 tokens/s."""
    fields = {
        "point": point, "environment": environment, "measured_sparsity": point.sparsity,
        "tokens_per_second": speed, "p10": 0.99 * speed, "p90": 1.01 * speed,
        "dense_tokens_per_second": 100.0, "dense_p10": 99.0, "dense_p90": 101.0,
        "prefill_tokens_per_second": 900.0, "prefill_p10": 890.0, "prefill_p90": 910.0,
        "dense_prefill_tokens_per_second": 1000.0, "dense_prefill_p10": 990.0, "dense_prefill_p90": 1010.0,
        "held_bytes": 2_000_000, "dense_held_bytes": 1_900_000, "peak_bytes": 9_000_000,
        "decoder": "compiled", "turns": 5, "timed_tokens": 64,
    }  # fmt: skip
    return DecodeRecord.model_validate(fields | changes)


def rows_of(store: Store):
    return worth_rows(store.decode_rows(), store.imports())


def points(source=MODEL, sparsities=(0.5,), batches=(1,), **settings):
    return DecodeSpec(model=source, sparsities=sparsities, batches=batches, **settings).points()


def test_a_timing_with_one_sequence_is_judged_against_the_dense_model(store: Store):
    store.record_decoding(timed(*points(), 160.0))
    (row,) = rows_of(store)
    assert row.verdict.text == "pays: 1.60 times (1.57 to 1.63) PyTorch dense"
    assert row.prefill.gain.status == "does not pay"
    assert (row.batches, row.bits, row.missing) == ("at least 1", "16 bits", ("batch 2, 4, 8", "our kernels at 0 %"))
    cells = dict(zip(COLUMNS, table_row(row), strict=True))
    assert (cells["tokens/s"], cells["dense tokens/s"], cells["held MB"], cells["peak MB"]) == (160.0, 100.0, 2.0, 9.0)
    assert cells["imported peer"] is None


def test_the_kernels_at_zero_are_the_rival_where_they_are_faster_corrected_for_drift(store: Store):
    zero, half = points(sparsities=(0.0, 0.5))
    store.record_decoding(timed(half, 160.0))
    slow = {"dense_tokens_per_second": 50.0, "dense_p10": 49.5, "dense_p90": 50.5}
    store.record_decoding(timed(zero, 65.0, **slow))  # 1.3 times dense, while the machine was half as fast
    (row,) = rows_of(store)
    assert row.dense.name == "our kernels at 0 %"
    assert row.dense.gain.ratio == pytest.approx(160 / 130)
    store.record_decoding(timed(zero, 45.0, **slow))
    assert rows_of(store)[0].dense.name == "PyTorch dense"


def test_the_batches_decide_how_far_it_pays(store: Store):
    speeds = {1: 160.0, 2: 140.0, 4: 120.0, 8: 80.0}
    for point in points(batches=BATCHES):
        store.record_decoding(timed(point, speeds[point.batch]))
    (row,) = rows_of(store)
    assert row.batches == "4 (equal at about 5.5)"
    assert row.missing == ("our kernels at 0 %",)


def test_an_imported_peer_of_this_machine_and_width_counts_and_others_do_not(store: Store):
    store.record_import(BENCH, MODEL)
    for source, speed in ((INT4, 1500.0), (MODEL, 160.0)):
        store.record_decoding(timed(*points(source), speed))
        store.record_decoding(timed(*points(source), speed, ELSEWHERE))
    rows = {(row.bits, row.machine[0]): row for row in rows_of(store)}
    assert {key for key, row in rows.items() if row.peer} == {("int4", "cpu")}
    row_with_peer = rows["int4", "cpu"]
    assert row_with_peer.peer_gain.name == "demo-Q4_0.gguf (imported)"
    assert table_row(row_with_peer)[COLUMNS.index("imported peer")].endswith("imported from bench.json, 2026-11-20)")
    assert row_with_peer.peer_gain.gain.ratio == pytest.approx(1500 / 1310.25)
    assert (row_with_peer.verdict.status, row_with_peer.dense.name) == ("pays", "dense int4")
    store.record_decoding(timed(*points(INT4), 400.0))
    row_with_peer = next(row for row in rows_of(store) if row.peer)
    assert row_with_peer.verdict.status == "does not pay"
    assert "demo-Q4_0.gguf (imported)" in row_with_peer.verdict.text


def test_unstable_timings_say_so(store: Store):
    store.record_decoding(timed(*points(), 160.0, p10=100.0))
    (row,) = rows_of(store)
    assert row.verdict.text.endswith("(unstable timing)")


def test_what_is_missing_is_one_sweep_for_each_method_and_model(store: Store):
    for point in (*points(sparsities=(0.25, 0.5)), *points(INT4), *points(method=MethodSpec(name="teal"))):
        store.record_decoding(timed(point, 160.0))
    specs = missing_specs(rows_of(store))
    assert [(spec.model, spec.method.name, spec.sparsities) for spec in specs] == [
        (MODEL, "wina", (0.0, 0.25, 0.5)), (INT4, "wina", (0.0, 0.5)), (MODEL, "teal", (0.0, 0.5)),
    ]  # fmt: skip
    assert all(spec.batches == BATCHES for spec in specs)
    for point in worth_spec(points()[0], (0.0, 0.5)).points():
        store.record_decoding(timed(point, 160.0))
    whole = next(row for row in rows_of(store) if row.point == points()[0])
    assert (whole.missing, missing_specs([whole])) == ((), [])


def test_the_latest_version_of_the_libraries_counts(store: Store):
    newer = HERE.model_copy(update={"versions": {"torch": "3"}})
    store.record_decoding(timed(*points(), 160.0, newer))
    store.record_decoding(timed(*points(), 130.0))
    assert [row.row.record.tokens_per_second for row in rows_of(store)] == [130.0]
