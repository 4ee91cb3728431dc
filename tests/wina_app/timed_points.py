"""Timed points as an engine reports them, with numbers that tests can tell apart."""

from typing import Any

from tests.wina_app.fakes import TIMING
from tests.wina_app.stored_runs import SOURCE
from wina_core.records import DecodeRecord, Environment, LatencyRecord
from wina_core.specs import MethodSpec
from wina_core.specs.latency import DecodePoint, LatencyPoint

HERE = TIMING
ELSEWHERE = Environment(device="cuda", hardware="a GPU", versions={"torch": "2.13.0"})


def timed(environment: Environment = HERE, op: str = "down", median: float = 2.0, **point: Any) -> LatencyRecord:
    """A product; dense ones are PyTorch's."""
    fields = {
        "outputs": 64,
        "inputs": 48,
        "batch": 1,
        "dtype": "float32",
        "method": "wina",
        "selection": "threshold",
        "sparsity": 0.5,
        "backend": "cpu",
        "repetitions": 20,
    }
    fields |= {"backend": "torch", "sparsity": 0.0} if point.get("method") == "dense" else {}
    made = LatencyPoint.model_validate(fields | point)
    return LatencyRecord(
        point=made,
        op=op,
        environment=environment,
        measured_sparsity=made.sparsity,
        read_bytes=8e6,
        median_ms=median,
        p10_ms=0.75 * median,
        p90_ms=1.5 * median,
        dense_ms=3.0,
        speedup=3.0 / median,
        bandwidth=16.0,
    )


def decoded(sparsity: float, method: str = "wina", environment: Environment = HERE, batch: int = 1) -> DecodeRecord:
    """Decoding by the loaded model."""
    return DecodeRecord(
        point=DecodePoint(model=SOURCE, method=MethodSpec(name=method), sparsity=sparsity, batch=batch),
        environment=environment,
        measured_sparsity=sparsity,
        tokens_per_second=30.0,
        p10=28.0,
        p90=31.0,
        dense_tokens_per_second=20.0,
        dense_p10=19.5,
        dense_p90=20.5,
        prefill_tokens_per_second=400.0,
        prefill_p10=390.0,
        prefill_p90=410.0,
        dense_prefill_tokens_per_second=410.0,
        dense_prefill_p10=400.0,
        dense_prefill_p90=420.0,
        held_bytes=2_000_000,
        dense_held_bytes=1_900_000,
        peak_bytes=9_000_000,
        decoder="compiled",
        turns=5,
        timed_tokens=64,
    )
