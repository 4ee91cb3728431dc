"""Sweeps: the points they measure, skip and refuse, and the records that a cancelled one keeps."""

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from wina_kernels.backends import load, usable

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_folder, tiny_text
from wina_core.compute import pausable_clock
from wina_core.compute.latency import budget, decoding, device, products, sweep
from wina_core.compute.latency.budget import (
    PeakMemory,
    Repetition,
    fitting_tokens,
    repetitions_left,
)
from wina_core.compute.latency.products import (
    dense_product,
    gated_product,
    int4_weight,
    int8_weight,
    kept_by_any_row,
    make_dense_product,
    make_inputs,
    make_weights,
    measured_sparsity,
)
from wina_core.compute.reporter import NullReporter, Reporter
from wina_core.compute.session.model_session import Session
from wina_core.engine.server.run_job import run_job
from wina_core.errors import Cancelled, WinaError
from wina_core.jobs import DecodeJob, Event, Job, LatencyJob, Measured, Result
from wina_core.records import DecodeRecord, LatencyRecord, SweepReport
from wina_core.specs import CalibrationSpec, MethodSpec, ModelSource, RotationSpec, TextSpec
from wina_core.specs.latency import (
    DENSE_PRODUCTS,
    LEAST_REPETITIONS,
    LEAST_TOKENS,
    DecodePoint,
    DecodeSpec,
    LatencyDType,
    LatencyMethod,
    LatencyPoint,
    LatencySelection,
    LatencySpec,
    Shape,
)

CPU = torch.device("cpu")
SPEC = LatencySpec(
    shapes=(Shape(outputs=64, inputs=48), Shape(op="tall", outputs=96, inputs=32)),
    batches=(1, 2),
    dtypes=("float32",),
    methods=("dense", "wina", "rsparse"),
    sparsities=(0.5,),
    backends=("reference",),
    device="cpu",
    repetitions=2,
    dense_products=(),
)


@pytest.fixture(autouse=True)
def known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 GB/s, a cache so small that few copies are made, and no product that takes too long on a busy machine."""
    monkeypatch.setattr(products, "LONGEST_SECONDS", 3600.0)
    monkeypatch.setattr(sweep, "measure_bandwidth", lambda *_: 10.0)
    monkeypatch.setattr(sweep, "cache_bytes", lambda _: 2**16)


def do(job: Job, reporter: Reporter | None = None) -> list[Event]:
    events: list[Event] = []
    run_job(job, Session(), events.append, reporter or NullReporter())
    return events


def latency_records(events: list[Event]) -> list[LatencyRecord]:
    records = [event.record for event in events if isinstance(event, Measured)]
    return [record for record in records if isinstance(record, LatencyRecord)]


def report(events: list[Event]) -> SweepReport:
    (value,) = (event.value for event in events if isinstance(event, Result))
    assert isinstance(value, SweepReport)
    return value


def test_each_point_is_sent_with_all_its_numbers() -> None:
    events = do(LatencyJob(spec=SPEC))
    records = latency_records(events)
    assert [record.point for record in records] == list(SPEC.points())
    assert report(events).measured == len(records) == 12
    assert {record.op for record in records} == {"linear", "tall"}
    for record in records:
        assert 0 < record.p10_ms <= record.median_ms <= record.p90_ms
        assert record.bandwidth == 10.0
        assert record.roofline == pytest.approx(record.read_bytes / 10e9 / (record.median_ms / 1e3))
        if record.point.method == "dense":
            assert (record.speedup, record.measured_sparsity, record.dense_ms) == (1.0, 0.0, record.median_ms)
    by_one = [record for record in records if record.point.batch == 1 and record.point.method == "wina"]
    assert [record.measured_sparsity for record in by_one] == [0.5, 0.5]
    # 24 of 48 columns of 64 weights, x, and norms; in float32 all of them
    assert by_one[0].read_bytes == 4 * (24 * 64 + 48 + 48)


def test_further_dense_products_are_measured_beside_pytorchs() -> None:
    spec = SPEC.model_copy(update={"methods": ("dense",), "dense_products": DENSE_PRODUCTS, "batches": (2, 16)})
    records = latency_records(do(LatencyJob(spec=spec)))
    of_two = [record for record in records if record.point.outputs == 64 and record.point.batch == 2]
    assert [record.point.backend for record in of_two] == ["torch", usable(CPU)[0], "torch-int8", "int8", "int4"]
    assert {record.point.backend for record in records if record.point.batch == 16} == {"torch", "torch-int8"}
    # 64 x 48 weights; scales in float32 for each output, or scales and zeros for its one group; two rows of x
    assert [record.read_bytes for record in of_two] == [
        *(4 * (64 * 48 + 2 * 48),) * 2,
        *(64 * 48 + 4 * 64 + 4 * 2 * 48,) * 2,
        64 * 48 / 2 + 2 * 4 * 64 + 4 * 2 * 48,
    ]
    assert all(record.measured_sparsity == 0.0 < record.speedup for record in of_two)


@pytest.mark.parametrize("bits", [8, 4])
def test_a_quantized_baseline_is_close_to_its_weight(bits: int) -> None:
    weight_t = torch.randn(100, 33, generator=torch.Generator().manual_seed(0))
    dequantized = (int8_weight if bits == 8 else int4_weight)(weight_t).dequantize()
    step = 2 * weight_t.abs().amax(0) / (2**bits - 1)
    assert ((dequantized - weight_t).abs() <= 0.51 * step).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_pytorchs_int8_product_is_right_for_any_number_of_inputs(dtype: str) -> None:
    chosen = {"method": "dense", "selection": "threshold", "sparsity": 0.0, "backend": "torch-int8", "dtype": dtype}
    point = LatencyPoint.model_validate({"outputs": 33, "inputs": 100, "batch": 4, "repetitions": 3} | chosen)
    weights = make_weights(point, 1, CPU, NullReporter())
    inputs = make_inputs(point, weights.norms)
    product = make_dense_product(point, weights, inputs, load("reference"), 1)(0, 4)()
    exact = inputs[0].x.double() @ weights.transposed[0].double()
    assert (product - exact).norm() < 0.02 * exact.norm()


def test_only_what_is_missing_is_measured() -> None:
    half = SPEC.points()[:6]
    environment = device.environment_on(CPU)
    names = tuple(point.content_hash() for point in half)
    others = tuple(point.content_hash() for point in SPEC.points()[6:])
    events = do(LatencyJob(spec=SPEC, stored={environment.key: names, "another machine": others}))
    assert [record.point for record in latency_records(events)] == list(SPEC.points()[6:])
    assert (report(events).measured, report(events).stored) == (6, 6)
    everything = tuple(point.content_hash() for point in SPEC.points())
    again = do(LatencyJob(spec=SPEC, stored={environment.key: everything}))
    assert (report(again).measured, report(again).stored, report(again).bandwidth) == (0, 12, None)


def test_auto_is_measured_as_the_backend_that_it_comes_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.backends, "usable", lambda _: ("triton", "reference"))
    load = device.backends.load

    def without_triton(name: str) -> object:
        if name == "triton":
            raise ImportError("No module named 'triton'")
        return load(name)

    monkeypatch.setattr(device.backends, "load", without_triton)
    spec = SPEC.model_copy(update={"backends": ("auto", "reference")})
    events = do(LatencyJob(spec=spec))
    assert [record.point for record in latency_records(events)] == list(SPEC.points())
    assert report(events).points == tuple(point.content_hash() for point in SPEC.points())
    with pytest.raises(WinaError, match=r'The backend "triton" cannot be loaded here \(No module named'):
        do(LatencyJob(spec=SPEC.model_copy(update={"backends": ("triton",)})))


def test_a_cancelled_sweep_keeps_what_it_sent() -> None:
    everything = RecordingReporter()
    do(LatencyJob(spec=SPEC), everything)
    events: list[Event] = []
    with pytest.raises(Cancelled):
        run_job(LatencyJob(spec=SPEC), Session(), events.append, RecordingReporter(after=everything.checks // 2))
    assert 0 < len(latency_records(events)) < 12
    assert not [event for event in events if isinstance(event, Result)]


def test_a_call_that_would_take_too_long_is_never_made(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0
    monkeypatch.setattr(products, "LONGEST_SECONDS", 0.8)
    monkeypatch.setattr(products.time, "perf_counter_ns", lambda: clock)
    called: list[int] = []

    def by_rows(rows: int) -> products.Work:
        def work() -> None:
            nonlocal clock
            clock += rows * 300_000_000
            called.append(rows)

        return work

    with pytest.raises(WinaError, match=r"one call with 4 rows would take about 1\.2 s, too long"):
        products.check_quick(by_rows, 5, NullReporter())
    assert called == [1, 1, 2, 2]
    products.check_quick(by_rows, 2, NullReporter())


def test_points_that_do_not_fit_are_skipped_with_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    # The largest batch alone needs more than nine tenths of it.
    monkeypatch.setattr(sweep, "free_bytes", lambda _: 8_000_000)
    spec = SPEC.model_copy(update={"batches": (1, 2**12), "methods": ("dense", "wina")})
    reporter = RecordingReporter()
    events = do(LatencyJob(spec=spec), reporter)
    assert {record.point.batch for record in latency_records(events)} == {1}
    assert len(report(events).skipped) == 2
    assert (
        report(events).skipped[0].startswith("2 of 8 points: 64x48 in float32 with batch 4096 needs 0.0 GB more, with")
    )
    assert reporter.lines == []  # the report says it
    monkeypatch.setattr(sweep, "free_bytes", lambda _: 1000)
    with pytest.raises(WinaError, match=r"64x48 in float32 with batch 1 needs .* free; choose a smaller shape"):
        do(LatencyJob(spec=spec))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no such product"), "no such product"),  # what a backend cannot do, in its words
        # The allocator of a processor raises no type of its own.
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "ran out of memory; choose a smaller shape"),
    ],
)
def test_a_point_that_fails_is_skipped_with_the_reason(monkeypatch, error: Exception, reason: str) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(sweep, "gated_product", fail)
    sweep_report = report(do(LatencyJob(spec=SPEC)))
    assert sweep_report.measured == 4, "the dense ones"
    assert all(reason in skipped for skipped in sweep_report.skipped)


def test_a_pause_between_tokens_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 0.0

    class Paused:
        def check(self) -> None:
            nonlocal seconds
            with pausable_clock.paused():
                seconds += 3600.0

        def is_over(self, _done: int) -> bool:
            return False

    def tokens() -> Iterator[int]:
        nonlocal seconds
        for token in range(4):
            seconds += 1.0
            yield token

    monkeypatch.setattr(pausable_clock.time, "perf_counter", lambda: seconds)
    model = SimpleNamespace(greedy=lambda _prompt: tokens())
    repetition = decoding._by_calls(model, torch.zeros(1, 2), Paused(), 4)
    assert repetition.end - repetition.first == 3.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"backends": ("cpu",)}, 'The backend "cpu" does not work on "cpu"; choose one of auto, dispatched, '),
        ({"backends": ("triton",)}, 'The backend "triton" does not work on "cpu"; choose one of auto, dispatched, '),
        ({"device": "abacus"}, '"abacus" is not a device; choose "auto", "cpu" or "cuda"'),
        ({"device": "meta"}, 'Latency is measured on "cpu" or "cuda", not on "meta"'),
    ],
)
def test_a_device_or_backend_that_does_not_work_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(WinaError, match=message):
        do(LatencyJob(spec=SPEC.model_copy(update=change)))


# ---- decoding ----------------------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> ModelSource:
    return ModelSource(location=str(tiny_folder(tmp_path / "model")), device="cpu")


ONE = decoding._Speeds([1.0], [1.0], 4)


def decode(spec: DecodeSpec) -> list[DecodeRecord]:
    records = [event.record for event in do(DecodeJob(spec=spec)) if isinstance(event, Measured)]
    return [record for record in records if isinstance(record, DecodeRecord)]


def spec_of(model: ModelSource, **settings: object) -> DecodeSpec:
    return DecodeSpec.model_validate({"model": model, "new_tokens": 4, "repetitions": 2, **settings})


def test_decoding_is_timed_gated_and_dense(model, monkeypatch):
    calls: list[tuple[int, int]] = []
    speeds = decoding._speeds

    def counted(loaded: object, prompt: torch.Tensor, *others: object) -> decoding._Speeds:
        measured_speeds = speeds(loaded, prompt, *others)  # type: ignore[arg-type]  # handed on as they came
        calls.append((prompt.shape[1], len(measured_speeds.decoding)))
        return measured_speeds

    monkeypatch.setattr(decoding, "_speeds", counted)
    spec, reporter = spec_of(model, sparsities=(0.25, 0.5)), RecordingReporter()
    records = [event.record for event in do(DecodeJob(spec=spec), reporter) if isinstance(event, Measured)]
    assert [record.point for record in records] == list(spec.points())
    assert calls == [(64, 2)] * 4
    for record in records:
        assert record.measured_sparsity == pytest.approx(record.point.sparsity, abs=0.03)
        assert 0 < record.p10 <= record.tokens_per_second <= record.p90
        assert record.speedup == record.tokens_per_second / record.dense_tokens_per_second
        assert record.dense_p10 <= record.dense_tokens_per_second <= record.dense_p90
        assert 0 < record.prefill_p10 <= record.prefill_tokens_per_second <= record.prefill_p90
        assert record.dense_prefill_tokens_per_second > 0
        assert (record.turns, record.timed_tokens) == (2, 4)
    reports = [call for call in reporter.calls if call[2] == "points"]
    assert [done for done, *_ in reports] == sorted(done for done, *_ in reports)
    assert reports[-1][:2] == (2, 2)
    assert "wina, 25 %: dense, repetition 1 of 2" in [metric for *_, metric in reports]


def test_a_spent_budget_leaves_three_repetitions_of_few_tokens_and_an_ample_one_all(model):
    (hasty,) = decode(spec_of(model, new_tokens=32, repetitions=7, budget_seconds=1e-6))
    assert (hasty.turns, hasty.timed_tokens) == (LEAST_REPETITIONS, LEAST_TOKENS)
    assert hasty.p10 <= hasty.tokens_per_second <= hasty.p90
    (ample,) = decode(spec_of(model, new_tokens=12, repetitions=4, budget_seconds=3600.0))
    assert (ample.turns, ample.timed_tokens) == (4, 12)
    (single,) = decode(spec_of(model, new_tokens=4, repetitions=1, budget_seconds=1e-6))
    assert (single.turns, single.timed_tokens) == (1, 4)


def test_a_repetition_that_takes_longer_than_planned_ends_early(model, monkeypatch):
    monkeypatch.setattr(budget, "fitting_tokens", lambda *_: 32)
    (record,) = decode(spec_of(model, new_tokens=32, repetitions=3, budget_seconds=1e-6))
    assert (record.turns, record.timed_tokens) == (3, LEAST_TOKENS)


def test_steps_of_a_graph_are_repeated_within_the_budget_too(model, monkeypatch):
    monkeypatch.setattr(decoding, "can_be_captured", lambda _: True)  # the decoder steps plainly here
    (record,) = decode(spec_of(model, new_tokens=12, repetitions=9, batches=(2,), budget_seconds=1e-6))
    assert (record.turns, record.timed_tokens) == (LEAST_REPETITIONS, LEAST_TOKENS)
    assert record.decoder == "CUDA graph: several sequences are decoded at once"


def test_several_sequences_are_decoded_at_once_each_from_its_own_prompt(model, monkeypatch):
    seen = []
    monkeypatch.setattr(decoding, "_speeds", lambda _, prompt, *__: seen.append(prompt) or ONE)
    spec = spec_of(model, batches=(1, 4))
    assert [record.point.batch for record in decode(spec)] == [1, 4]
    alone, four = seen[0], seen[2]
    assert four.shape == (4, 64)
    assert torch.equal(alone[0], four[0])
    assert len({tuple(row.tolist()) for row in four}) == 4


def test_the_speed_counts_all_sequences(monkeypatch):
    monkeypatch.setattr(decoding, "_repetition", lambda *_: None)
    turns = SimpleNamespace(timed=lambda _: [Repetition(0.0, 2.0, 6.0, 5)])
    assert decoding._speeds(None, torch.zeros(3, 8), None, turns, "") == ([3.0], [12.0], 5)


def test_held_memory_counts_a_tied_tensor_once_and_the_gates_norms(model):
    (record,) = decode(spec_of(model, method=MethodSpec(name="wina", masks="separate")))
    (teal,) = decode(spec_of(model, method=MethodSpec(name="teal")))
    assert teal.held_bytes == teal.dense_held_bytes
    assert record.held_bytes > record.dense_held_bytes
    assert sys.platform != "linux" or record.peak_bytes > record.held_bytes


def test_with_shortcuts_the_dense_model_is_one_of_its_own(model, monkeypatch, tmp_path):
    seen: list[object] = []
    monkeypatch.setattr(decoding, "_speeds", lambda loaded, *_: seen.append(loaded.model) or ONE)
    text = TextSpec(source=tiny_text(tmp_path), tokens=512, sequence=64)
    free = RotationSpec(mode="global", text=text)
    decode(spec_of(model, rotation=free))
    assert seen[0] is seen[1]
    decode(spec_of(model, rotation=free.model_copy(update={"mode": "per_site"})))
    assert seen[2] is not seen[3]
    monkeypatch.setattr(decoding, "free_bytes", lambda _: 0)
    with pytest.raises(WinaError, match="GB are free: choose a rotation without shortcuts"):
        decode(spec_of(model, rotation=free.model_copy(update={"mode": "per_site"})))


def test_decoding_is_cancelled_between_tokens(model: ModelSource) -> None:
    reporter = RecordingReporter(after=8)
    events: list[Event] = []
    with pytest.raises(Cancelled):
        run_job(DecodeJob(spec=spec_of(model, new_tokens=64)), Session(), events.append, reporter)
    assert not any(isinstance(event, Measured) for event in events)
    assert reporter.checks == 9


def test_what_cannot_be_decoded_is_refused(model: ModelSource) -> None:
    with pytest.raises(WinaError, match="64 tokens of prompt and 600 new ones exceed the model's context of 512"):
        do(DecodeJob(spec=spec_of(model, new_tokens=600)))
    with pytest.raises(WinaError, match='There is no method "magic"'):
        do(DecodeJob(spec=spec_of(model, method=MethodSpec(name="magic"))))
    cats = MethodSpec(name="cats")
    with pytest.raises(WinaError, match=r'^The method "cats" reaches less than .*, so 90 % is out of'):
        do(DecodeJob(spec=spec_of(model, method=cats, calibration=CalibrationSpec(), sparsities=(0.9,))))


def test_a_sparsity_out_of_reach_is_skipped_and_the_others_are_timed(model, monkeypatch):
    monkeypatch.setattr(decoding, "_speeds", lambda *_: ONE)
    spec = spec_of(model, method=MethodSpec(name="cats"), sparsities=(0.9, 0.25))
    events = do(DecodeJob(spec=spec))
    assert [event.record.point.sparsity for event in events if isinstance(event, Measured)] == [0.25]
    sweep_report = report(events)
    assert sweep_report.measured == 1
    assert sweep_report.points == tuple(point.content_hash() for point in spec.points())
    (reason,) = sweep_report.skipped
    assert reason.startswith('1 of 2 points: The method "cats" reaches less than')


# ---- repetitions and tokens within a time budget ---------------------------------------------------------------------

MODEL = ModelSource(location="demo")
seconds = st.floats(1e-3, 100.0)


def decode_point(**settings: object) -> DecodePoint:
    return DecodePoint.model_validate({"model": MODEL, "sparsity": 0.5, "budget_seconds": 45.0, **settings})


@pytest.mark.parametrize(
    ("left", "tokens"),
    [(300.0, 64), (3 * (1.0 + 63 * 0.1), 64), (3 * (1.0 + 20 * 0.1) + 1e-6, 21), (3.0, 8), (-5.0, 8)],
)
def test_tokens_are_as_many_as_three_repetitions_allow(left: float, tokens: int) -> None:
    assert fitting_tokens(left, prompt=1.0, token=0.1, point=decode_point()) == tokens
    assert fitting_tokens(left, prompt=1.0, token=0.1, point=decode_point(new_tokens=4)) == 4


@pytest.mark.parametrize(
    ("done", "left", "coming"), [(0, 100.0, 5), (0, 40.0, 4), (0, 1.0, 3), (2, -3.0, 1), (3, 9.9, 0), (4, 99.0, 1)]
)
def test_repetitions_go_on_while_one_more_fits_and_never_end_before_three(done: int, left: float, coming: int) -> None:
    assert repetitions_left(done, 10.0, left, decode_point()) == coming
    assert repetitions_left(done, 10.0, float("inf"), decode_point()) == 5 - done
    assert repetitions_left(0, 10.0, left, decode_point(repetitions=1)) == 1


@given(seconds, seconds, seconds, st.integers(1, 20), st.integers(2, 100))
def test_a_point_takes_no_longer_than_its_budget_or_its_least_work(
    budget: float, prompt: float, token: float, repetitions: int, new_tokens: int
) -> None:
    tried = decode_point(repetitions=repetitions, new_tokens=new_tokens)
    tokens = fitting_tokens(budget, prompt, token, tried)
    duration = prompt + (tokens - 1) * token
    timed = repetitions_left(0, duration, budget, tried) * duration
    least = min(repetitions, LEAST_REPETITIONS) * (prompt + (min(new_tokens, LEAST_TOKENS) - 1) * token)
    assert timed <= max(budget, least) * (1 + 1e-9)


def test_where_the_system_forbids_to_reset_its_count_there_is_no_peak(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """As containers with a read-only /proc do."""
    monkeypatch.setattr(budget, "_RESET", tmp_path / "missing" / "clear_refs")
    with PeakMemory(torch.device("cpu")) as peak:
        pass
    assert peak.bytes is None


# ---- bytes, copies and inputs against numbers worked out by hand -----------------------------------------------------


def point(method: LatencyMethod = "wina", **fields: object) -> LatencyPoint:
    usual = {"outputs": 5120, "inputs": 17920, "batch": 1, "dtype": "bfloat16", "selection": "threshold"}
    further = {"method": method, "sparsity": 0.5, "backend": "reference", "repetitions": 3}
    return LatencyPoint.model_validate(usual | further | fields)


def test_bytes_that_must_be_read() -> None:
    # 8960 kept columns of 5120 bfloat16 weights, 17920 of x, and for WINA 17920 norms in float32
    assert products.read_bytes(point("teal"), 8960) == 8960 * 5120 * 2 + 17920 * 2 == 91_786_240
    assert products.read_bytes(point("wina"), 8960) == 91_786_240 + 71_680
    # a batch reads the columns that any of its rows keeps, and all rows of x
    assert products.read_bytes(point("teal", batch=4), 16_800) == 16_800 * 5120 * 2 + 4 * 17920 * 2
    assert products.read_bytes(point("dense", dtype="float32", sparsity=0.0), 17920) == 367_073_280


def test_the_low_rank_part_takes_its_share_of_the_budget() -> None:
    # rho 0.95: r = floor(5120 * 17920 * 0.5 * 0.05 / 23040) = 99, and the mask keeps 47.5 % of the inputs
    rsparse = point("rsparse")
    assert products.rank(rsparse) == 99
    assert products.mask_sparsity(rsparse) == pytest.approx(0.525)
    assert products.read_bytes(rsparse, 8512) == (8512 * 5120 + 99 * 23040 + 17920) * 2
    assert products.rank(point("rsparse", sparsity=0.0)) == products.rank(point("teal")) == 0
    assert products.mask_sparsity(point("rsparse", sparsity=0.0)) == 0.0


def test_copies_keep_twice_the_cache_between_two_readings() -> None:
    assert products.copies(point(), 32 * 2**20) == 2  # 183.5 MB each
    assert products.copies(point(outputs=1024, inputs=4096), 32 * 2**20) == 1 + 8  # 8 MiB each
    assert products.copies(point(outputs=1024, inputs=4096, dtype="float32"), 32 * 2**20) == 1 + 4


GATED: tuple[LatencyMethod, ...] = ("teal", "wina", "rsparse")
DTYPES: tuple[LatencyDType, ...] = ("float32", "bfloat16", "float16")


@settings(max_examples=40)
@given(
    method=st.sampled_from(GATED),
    dtype=st.sampled_from(DTYPES),
    inputs=st.integers(1, 700),
    batch=st.integers(1, 5),
    sparsity=st.floats(0.0, 0.99),
)
def test_exactly_the_wanted_fraction_is_dropped(method, dtype, inputs, batch, sparsity):
    measured_point = point(method, outputs=3, inputs=inputs, batch=batch, dtype=dtype, sparsity=sparsity)
    made = make_inputs(measured_point, make_weights(measured_point, 1, CPU, NullReporter()).norms)
    dropped = math.floor(products.mask_sparsity(measured_point) * batch * inputs + 0.5)
    assert all(int((~drawn.mask).sum()) == dropped for drawn in made)
    assert measured_sparsity(made) == pytest.approx(dropped / (batch * inputs))


def test_a_batch_must_read_what_any_of_its_rows_keeps() -> None:
    measured_point = point("teal", outputs=3, inputs=4000, batch=2)
    made = make_inputs(measured_point, make_weights(measured_point, 1, CPU, NullReporter()).norms)
    assert kept_by_any_row(made) == pytest.approx(0.75 * 4000, rel=0.05)
    one = make_inputs(point("teal", outputs=3, inputs=4000), torch.ones(4000))
    assert kept_by_any_row(one) == 2000


@pytest.mark.parametrize("selection", ["threshold", "topk"])
@pytest.mark.parametrize("method", ["teal", "wina"])
@pytest.mark.parametrize("batch", [1, 3])
def test_what_is_timed_is_the_methods_product(method: LatencyMethod, batch: int, selection: LatencySelection) -> None:
    measured_point = point(method, outputs=60, inputs=80, batch=batch, dtype="float32", selection=selection)
    weights = make_weights(measured_point, 2, CPU, NullReporter())
    made = make_inputs(measured_point, weights.norms)
    w = weights.dense[0].double()
    assert weights.dense[1].equal(weights.dense[0])
    assert weights.transposed[1].equal(weights.dense[0].T)
    torch.testing.assert_close(weights.norms.double(), w.norm(dim=0), rtol=1e-6, atol=0.0)
    product = gated_product(measured_point, weights, made, load("reference"))
    first, again = _value(product(0, batch)), _value(product(len(made), batch))
    expected = (made[0].x.double() * made[0].mask) @ w.T
    torch.testing.assert_close(first.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(first, again)


def test_rsparse_adds_products_of_its_rank_to_the_mask() -> None:
    measured_point = point("rsparse", outputs=160, inputs=160, batch=6, dtype="float32")
    weights = make_weights(measured_point, 2, CPU, NullReporter())
    made = make_inputs(measured_point, weights.norms)
    y = _value(gated_product(measured_point, weights, made, load("reference"))(0, 6))
    added = y.double() - (made[0].x.double() * made[0].mask) @ weights.dense[0].double().T
    assert torch.linalg.matrix_rank(added, rtol=1e-4) == products.rank(measured_point) == 2


def test_the_peer_is_the_dense_product_on_the_usual_layout() -> None:
    for batch in (1, 3):
        measured_point = point("dense", outputs=60, inputs=80, batch=batch, dtype="float32", sparsity=0.0)
        weights = make_weights(measured_point, 2, CPU, NullReporter())
        made = make_inputs(measured_point, weights.norms)
        y = _value(dense_product(weights, made)(1, batch)).reshape(batch, 60)
        torch.testing.assert_close(y.double(), made[1].x.double() @ weights.dense[0].double().T, rtol=1e-5, atol=1e-5)


def _value(work: object) -> Tensor:
    assert callable(work)
    value = work()
    assert isinstance(value, Tensor)
    return value
