"""Stored timings beside the dense products of their machine, and their stability."""

import statistics
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from wina_core.records import DecodeRecord, LatencyRecord
from wina_core.specs import DENSE
from wina_core.specs.latency import STEADY, VENDOR

_Record = TypeVar("_Record", LatencyRecord, DecodeRecord)
_MISSING = object()


@dataclass(frozen=True, kw_only=True)
class TimedRow(Generic[_Record]):
    """A stored timing beside the others of the same work, in which all but the gates is equal."""

    COLUMNS: ClassVar[tuple[str, ...]]
    """Columns of files, JSON and data frames."""
    record: _Record
    point: str
    """Content hash of the point, or another one if `superseded`."""
    recorded: float
    """Seconds since the epoch."""
    best: _Record | None = None
    """The fastest dense one of the same work; None if PyTorch's alone was timed."""
    drift: float = 1.0
    """Ratio of this point's dense median to the median over all points of the same work, or its inverse if larger."""

    @property
    def machine(self) -> tuple[str, str]:
        return self.record.environment.device, self.record.environment.hardware

    @property
    def superseded(self) -> bool:
        """Return whether the numbers have another meaning than in this version: their hash is that of no point."""
        return self.record.point.content_hash() != self.point

    @property
    def stable(self) -> bool:
        return max(self.record.spread, self.record.dense_spread, self.drift) <= STEADY

    def cell(self, column: str) -> Any:
        """Return a value by its name: of the row, else of the record, its point or its environment."""
        owners = (self, self.record, self.record.point, self.record.environment)
        values = (getattr(owner, column, _MISSING) for owner in owners)
        return next(value for value in values if value is not _MISSING)

    @property
    def cells(self) -> tuple[Any, ...]:
        return tuple(map(self.cell, self.COLUMNS))


@dataclass(frozen=True, kw_only=True)
class LatencyRow(TimedRow[LatencyRecord]):
    """One timed product. The best dense one may be quantized, or our kernel at 0 %."""

    COLUMNS = (
        *("op", "outputs", "inputs", "batch", "dtype", "method", "selection", "sparsity", "backend", "repetitions"),
        *("measured_sparsity", "read_bytes", "median_ms", "p10_ms", "p90_ms", "dense_ms", "speedup"),
        *("gigabytes_per_second", "bandwidth", "roofline", "recorded", "device", "hardware", "point"),
        *("best_dense", "best_dense_ms", "best_speedup", "spread", "drift", "stable"),
    )

    @property
    def work(self) -> Hashable:
        point = self.record.point
        return self.record.environment.key, point.outputs, point.inputs, point.batch, point.dtype

    @property
    def best_dense(self) -> str:
        return "" if self.best is None else self.best.point.backend

    @property
    def best_dense_ms(self) -> float | None:
        return None if self.best is None else self.best.median_ms

    @property
    def best_speedup(self) -> float | None:
        # A product and PyTorch's are timed in turns: the ratio of two speed-ups compares points of different times.
        return None if self.best is None else self.record.speedup / self.best.speedup

    @staticmethod
    def best_of(records: Iterable[LatencyRecord]) -> LatencyRecord | None:
        """Return the fastest dense product; None if no other than PyTorch's was timed."""
        dense = [record for record in records if record.point.method == DENSE.name]
        compared = any(record.point.backend != VENDOR for record in dense)
        return max(dense, key=lambda record: record.speedup) if compared else None


@dataclass(frozen=True, kw_only=True)
class DecodeRow(TimedRow[DecodeRecord]):
    """One timed model. The best dense decoding is that of our kernels at 0 %, or else PyTorch's."""

    COLUMNS = (
        *("model", "rotation", "method", "selection", "sparsity", "measured_sparsity"),
        *("prompt_tokens", "new_tokens", "repetitions", "tokens_per_second", "p10", "p90"),
        *("dense_tokens_per_second", "speedup", "batch", "dense_p10", "dense_p90"),
        *("prefill_tokens_per_second", "prefill_p10", "prefill_p90"),
        *("dense_prefill_tokens_per_second", "dense_prefill_p10", "dense_prefill_p90"),
        *("held_bytes", "dense_held_bytes", "peak_bytes", "decoder", "turns", "timed_tokens"),
        *("recorded", "device", "hardware", "point", "best_speedup", "spread", "dense_spread", "drift", "stable"),
    )
    model: str
    """The model's short name."""
    rotation: str
    method: str

    @property
    def selection(self) -> str:
        return self.record.point.method.selection

    @property
    def work(self) -> Hashable:
        point = self.record.point
        model = point.model.content_hash()
        return self.record.environment.key, model, point.prompt_tokens, point.new_tokens, point.batch

    @property
    def best_speedup(self) -> float | None:
        """Return the speed-up over the fastest dense decoding; None if our kernels were not timed at 0 %."""
        # Speed-ups are over PyTorch's dense decoding, which may itself be the fastest one.
        return None if self.best is None else self.record.speedup / max(1.0, self.best.speedup)

    @staticmethod
    def best_of(records: Iterable[DecodeRecord]) -> DecodeRecord | None:
        """Return the fastest decoding at 0 %; None if none was timed."""
        zeros = (record for record in records if record.point.sparsity == 0.0)
        return max(zeros, key=lambda record: record.speedup, default=None)


_Row = TypeVar("_Row", LatencyRow, DecodeRow)


def compare_timings(rows: Sequence[_Row], dense: Callable[[Any], float]) -> list[_Row]:
    """Return the rows with `best` and `drift`; `dense` returns the dense median of a record."""
    groups: dict[Hashable, list[Any]] = {}
    for row in rows:
        groups.setdefault(row.work, []).append(row.record)
    best = {work: rows[0].best_of(records) for work, records in groups.items()}
    middles = {work: statistics.median(map(dense, records)) for work, records in groups.items()}
    judged = []
    for row in rows:
        median, middle = dense(row.record), middles[row.work]
        judged.append(replace(row, best=best[row.work], drift=max(median / middle, middle / median)))
    return judged
