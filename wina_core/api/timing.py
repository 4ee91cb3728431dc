"""Sweeps that print each timed point on stderr when it is measured."""

import sys

from wina_core.api.progress import terminal_reporter
from wina_core.api.running import Reporting, run_recorded
from wina_core.jobs import DecodeJob, Event, LatencyJob, Measured
from wina_core.records import DecodeRecord, LatencyRecord, SweepReport
from wina_core.records.texts import percent_apart
from wina_core.specs.latency import STEADY, LatencySpec
from wina_core.store import LatencyRow, Store


def sweep_products(
    spec: LatencySpec,
    recompute: bool,
    store: Store,
    *,
    machines: tuple[str, ...] = (),
    reporting: Reporting = terminal_reporter,
) -> tuple[SweepReport, list[LatencyRow]]:
    """Time the points of a sweep that are not stored for this machine, or all with `recompute`; return all points."""
    job = LatencyJob(spec=spec, stored={} if recompute else store.measured_points(spec.hashes()))
    report = time_points(job, store, machines=machines, reporting=reporting)
    return report, store.latency_rows(report.environment.key, report.points)


def time_points(
    job: LatencyJob | DecodeJob,
    store: Store,
    *,
    machines: tuple[str, ...] = (),
    reporting: Reporting = terminal_reporter,
) -> SweepReport:
    """Run a sweep and record its points."""
    report = run_recorded(job, store, print_point, machines=machines, reporting=reporting).result
    assert isinstance(report, SweepReport)
    return report


def print_point(event: Event) -> None:
    """Print a timed point with p10 and p90; other events print nothing."""
    if isinstance(event, Measured):
        record = event.record
        text = _decoding(record) if isinstance(record, DecodeRecord) else _product(record)
        print(text, file=sys.stderr)


def _decoding(record: DecodeRecord) -> str:
    speed = _speed(record.tokens_per_second, record.p10, record.p90)
    dense = _speed(record.dense_tokens_per_second, record.dense_p10, record.dense_p90)
    counts = f"{record.turns} repetitions of {record.timed_tokens} tokens"
    return f"{record.point.label}: {speed}; dense {dense}; {counts}"


def _product(record: LatencyRecord) -> str:
    return f"{record.point.label}: {record.median_ms:.4g} ms ({_span(record.p10_ms, record.p90_ms)})"


def _speed(median: float, p10: float | None, p90: float | None) -> str:
    known = "" if p10 is None or p90 is None else f" ({_span(p10, p90)})"
    return f"{median:.4g} tokens/s{known}"


def _span(p10: float, p90: float) -> str:
    """Return p10 and p90, and by how much the runs disagree if that is too much."""
    apart = "" if p90 / p10 <= STEADY else f", runs disagree by {percent_apart(p90 / p10)}"
    return f"p10 {p10:.4g}, p90 {p90:.4g}{apart}"
