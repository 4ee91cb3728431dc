"""Timing of a LatencyJob: matrix by matrix, each point sent as soon as it is measured."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from wina_kernels.backends import Backend

from wina_core.compute.latency import products
from wina_core.compute.latency.device import backend_of, cache_bytes, check_dtype, device_of, environment_on, free_bytes
from wina_core.compute.latency.products import (
    Product,
    Weights,
    Work,
    check_quick,
    dense_product,
    gated_product,
    kept_by_any_row,
    make_dense_product,
    make_inputs,
    make_weights,
    measured_sparsity,
    time_turns,
)
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError, ran_out_of_memory
from wina_core.jobs import Emit, LatencyJob, Measured
from wina_core.records import Environment, LatencyRecord, SweepReport
from wina_core.specs import DENSE
from wina_core.specs.latency import QUANTIZED_BITS, VENDOR, LatencyPoint, LatencySpec, Shape, missing_points

_MAX_MEMORY_SHARE = 0.9
"""Fraction of the free memory that a sweep may use."""


def time_products(job: LatencyJob, emit: Emit, reporter: Reporter, job_id: str) -> SweepReport:
    """Measure the points that are not stored yet; skip one that cannot be measured with its reason.

    Raises WinaError for a device or backend that does not work here, and if no point can be measured; Cancelled within
    a second, except while compiling and making weights.
    """
    device = device_of(job.spec.device)
    environment = environment_on(device)
    for dtype in job.spec.dtypes:
        check_dtype(dtype, device)
    requested = job.spec.points()
    # Products of PyTorch and of quantized weights have no backend to load.
    names = {point.backend for point in requested} - {VENDOR, *QUANTIZED_BITS}
    loaded = {name: backend_of(name, device) for name in names}
    concrete = [
        point.model_copy(update={"backend": loaded[point.backend][0]}) if point.backend in loaded else point
        for point in requested
    ]
    points, missing = missing_points(concrete, job.stored.get(environment.key, ()))
    stored = len(points) - len(missing)
    if not missing:
        return SweepReport(environment=environment, points=tuple(points), measured=0, stored=stored)
    with torch.inference_mode(), torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        reporter.progress(0, len(missing), "points", "bandwidth")
        bandwidth = measure_bandwidth(device, reporter)
        sweep = _Sweep(job.spec, device, environment, dict(loaded.values()), bandwidth, reporter)
        measured = 0
        for record in sweep.records(missing):
            emit(Measured(job_id=job_id, record=record))
            measured += 1
    if measured == stored == 0:
        raise WinaError(" ".join(sweep.skipped))
    reasons = tuple(f"{count} of {len(missing)} points: {reason}" for reason, count in sweep.skipped.items())
    return SweepReport(
        environment=environment,
        points=tuple(points),
        measured=measured,
        stored=stored,
        skipped=reasons,
        bandwidth=bandwidth,
    )


@dataclass
class _Sweep:
    """State that all points of one sweep share."""

    spec: LatencySpec
    device: torch.device
    environment: Environment
    backends: dict[str, Backend]
    bandwidth: float
    reporter: Reporter
    skipped: Counter[str] = field(default_factory=Counter)
    """Skipped points, by reason."""

    def __post_init__(self) -> None:
        self.cache = cache_bytes(self.device)

    def records(self, points: Sequence[LatencyPoint]) -> Iterator[LatencyRecord]:
        """Yield one record for each measurable point; points on the same weights come together."""
        weights: Weights | None = None
        made_for: tuple[Shape, str] | None = None
        for done, point in enumerate(points):
            self.reporter.progress(done, len(points), "points", point.label)
            self.reporter.check()
            if made_for != (point.shape, point.dtype):
                weights = None  # free their memory before the next ones are made
                made_for = point.shape, point.dtype
            try:
                copies = products.copies(point, self.cache)
                self._check_memory(point, copies, held=weights is not None)
                weights = weights or make_weights(point, copies, self.device, self.reporter)
                yield self._record(point, weights)
            except (WinaError, ValueError, NotImplementedError) as error:  # as backends say what they cannot do
                self.skipped[str(error)] += 1
            except Exception as error:
                # The allocator of a processor raises a plain RuntimeError.
                if not ran_out_of_memory(error):
                    raise
                self.skipped[f"{point.label} ran out of memory; choose a smaller shape, batch or dtype."] += 1
        self.reporter.progress(len(points), len(points), "points")

    def _check_memory(self, point: LatencyPoint, copies: int, held: bool) -> None:
        needed = products.further_bytes(point, copies, self.cache) + (
            0 if held else products.weight_bytes(point, copies)
        )
        free, more = free_bytes(self.device), " more" if held else ""
        if needed > _MAX_MEMORY_SHARE * free:
            raise WinaError(
                f"{point.shape.label} in {point.dtype} with batch {point.batch} needs {needed / 1e9:.1f} GB{more}, "
                f"with {copies} cold copies in both layouts, and {free / 1e9:.1f} GB are free; choose a smaller shape, "
                "batch or dtype."
            )

    def _record(self, point: LatencyPoint, weights: Weights) -> LatencyRecord:
        inputs = make_inputs(point, weights.norms)
        timed = [dense_product(weights, inputs)]
        if point.method == DENSE.name and point.backend != VENDOR:
            copies = products.quantized_copies(point, self.cache) if point.backend in QUANTIZED_BITS else 0
            kernels = self.backends.get(point.backend) or backend_of("auto", self.device)[1]
            timed.append(make_dense_product(point, weights, inputs, kernels, copies))
        elif point.backend in self.backends:
            timed.append(gated_product(point, weights, inputs, self.backends[point.backend]))
        if self.device.type == "cpu":
            for product in timed:
                try:
                    check_quick(partial(product, 0), point.batch, self.reporter)
                except WinaError as error:
                    raise WinaError(f"{point.shape.label}, {point.dtype}, {point.backend}: {error}") from error
        contenders = [partial(_whole_batch, product, point.batch) for product in timed]
        times = time_turns(contenders, point.repetitions, self.device, self.reporter)
        product_times, dense_times = np.array(times[-1]), np.array(times[0])
        p10, median, p90 = np.percentile(product_times, (10, 50, 90))
        return LatencyRecord(
            point=point,
            op=self.spec.op_of(point),
            environment=self.environment,
            measured_sparsity=measured_sparsity(inputs),
            read_bytes=products.read_bytes(point, kept_by_any_row(inputs)),
            median_ms=float(median),
            p10_ms=float(p10),
            p90_ms=float(p90),
            dense_ms=float(np.median(dense_times)),
            # Turn by turn: both calls of a turn run at the same speed of the machine.
            speedup=float(np.median(dense_times / product_times)),
            bandwidth=self.bandwidth,
        )


def _whole_batch(product: Product, batch: int, turn: int) -> Work:
    return product(turn, batch)


# ---- the roofline: this device's memory bandwidth, measured when a sweep begins --------------------------------------

_MIN_BUFFER_BYTES = 2**28
_BUFFER_CACHES = 4
"""The buffer's size in last-level caches, so that almost nothing of it stays there."""
_REPETITIONS = 4


def measure_bandwidth(device: torch.device, reporter: Reporter) -> float:
    """Return GB/s (1e9 bytes): the better of reading a large buffer (its sum) and copying it (read and written bytes).

    Sums read at full speed on processors, where a copy also fetches what it overwrites; on GPUs the copy is the usual
    yardstick. Each counts by its fastest turn, since other load only slows it down.
    """
    # The two buffers leave half of the free memory.
    size = min(max(_MIN_BUFFER_BYTES, _BUFFER_CACHES * cache_bytes(device)), free_bytes(device) // 4)
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    calls = (lambda _: source.sum, lambda _: lambda: target.copy_(source))
    reading, copying = (min(times) for times in time_turns(calls, _REPETITIONS, device, reporter))
    moved = source.numel() * source.element_size() / 1e6
    return max(moved / reading, 2 * moved / copying)
