"""The timed products: weights in cold copies, inputs of exact sparsity, the dense call and the gated one.

Dense products besides PyTorch's are our kernels at 0 %, and products with INT8 or INT4 weights. The bytes of a product
give its reads, its memory, and the number of copies that keep weights out of the cache. Calls are timed turn by turn,
in milliseconds: contenders alternate, because a machine's speed drifts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
import wina_kernels
from torch import Tensor
from torch.nn import functional
from wina_kernels.backends import Backend
from wina_kernels.reference import threshold_masks
from wina_kernels.selection import kept_inputs, scores, top_k_mask
from wina_kernels.weights import QuantizedWeight

from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.specs.latency import DISPATCHED, DTYPE_BYTES, QUANTIZED_BITS, LatencyPoint
from wina_core.specs.methods.published import RSparse, affordable_rank, masked_fraction

_BLOCK = 2**22
"""Weights made at a time, in some hundredths of a second."""
_RAISED = 1 + 2**-5
"""Factor that raises a score above an equal one in every dtype."""


@dataclass(frozen=True, eq=False)
class Weights:
    """Equal copies of one random matrix in both layouts."""

    dense: Tensor
    """[copies, m, n], as linear layers hold it."""
    transposed: Tensor
    """[copies, n, m]."""
    norms: Tensor
    """||W[:, i]||, float32 [n]."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """x and its gate."""

    x: Tensor
    """[batch, n]."""
    threshold: float
    keep: int
    mask: Tensor
    """The point's selection, bool [batch, n]."""


def make_weights(point: LatencyPoint, copies: int, device: torch.device, reporter: Reporter) -> Weights:
    """Draw W ~ N(0, 1/n) from a fixed seed; check for cancellation regularly."""
    shape, dtype = (point.outputs, point.inputs), getattr(torch, point.dtype)
    dense = torch.empty(copies, *shape, dtype=dtype, device=device)
    transposed = torch.empty(copies, *reversed(shape), dtype=dtype, device=device)
    squares = torch.zeros(point.inputs, device=device)
    generator = _generator(device)
    height = max(1, _BLOCK // point.inputs)
    for top in range(0, point.outputs, height):
        reporter.check()
        rows = slice(top, top + height)
        block = dense[0, rows].normal_(std=point.inputs**-0.5, generator=generator)
        squares += block.float().square().sum(0)
        for copy in range(copies):
            reporter.check()
            dense[copy, rows] = block
            transposed[copy, :, rows] = block.T
    return Weights(dense, transposed, squares.sqrt())


def make_inputs(point: LatencyPoint, norms: Tensor) -> list[Inputs]:
    """Draw several x ~ N(0, 1), each with the threshold that drops exactly the requested fraction of its scores.

    That is floor(s batch n + 1/2) over all rows. Kept scores that tie with the threshold, frequent in 16 bits, are
    raised by 3 %.
    """
    generator = _generator(norms.device)
    sparsity, scale = mask_sparsity(point), norms if point.method == "wina" else None
    return [_inputs(point, sparsity, scale, norms.device, generator) for _ in range(INPUTS)]


def _inputs(
    point: LatencyPoint, sparsity: float, scale: Tensor | None, device: torch.device, generator: torch.Generator
) -> Inputs:
    x = torch.randn(point.batch, point.inputs, device=device, generator=generator).to(getattr(torch, point.dtype))
    keep = kept_inputs(point.inputs, sparsity)
    key = scores(x, scale)
    if point.selection == "topk":
        return Inputs(x, 0.0, keep, top_k_mask(key, keep))
    ordered, order = key.float().flatten().sort(stable=True)
    dropped = math.floor(sparsity * x.numel() + 0.5)
    if dropped == 0:
        return Inputs(x, 0.0, keep, threshold_masks(x, scale, 0.0))
    threshold = float(ordered[dropped - 1])
    tied = order[dropped:][ordered[dropped:] == threshold]
    x.view(-1)[tied] *= _RAISED
    return Inputs(x, threshold, keep, threshold_masks(x, scale, threshold))


def measured_sparsity(inputs: list[Inputs]) -> float:
    return 1.0 - sum(float(drawn.mask.double().mean()) for drawn in inputs) / len(inputs)


def kept_by_any_row(inputs: list[Inputs]) -> float:
    """Return the mean number of inputs whose weights must be read: the union over a batch's rows."""
    return sum(int(drawn.mask.any(0).sum()) for drawn in inputs) / len(inputs)


Work = Callable[[], object]
Product = Callable[[int, int], Work]
"""(turn, rows) -> the product of the first rows of the turn's input with the turn's copy."""


def dense_product(weights: Weights, inputs: list[Inputs]) -> Product:
    """Return the vendor's call: a matrix-vector product for one row, a linear layer's for more."""

    def product(turn: int, rows: int) -> Work:
        w, x = weights.dense[turn % len(weights.dense)], inputs[turn % INPUTS].x[:rows]
        return partial(torch.mv, w, x[0]) if rows == 1 else partial(functional.linear, x, w)

    return product


def gated_product(point: LatencyPoint, weights: Weights, inputs: list[Inputs], backend: Backend) -> Product:
    """Return the point's method, gating included.

    R-Sparse's y = W (m * x) + L (1 - m) * x, L of rank r, is computed as (W - L)(m * x) + L x: one kernel call on a
    prepared matrix and two thin products, without a second mask.
    """
    scale = weights.norms if point.method == "wina" else None
    copies = len(weights.transposed)
    above = backend.sparse_linear
    if point.backend == DISPATCHED:  # which kernel is fastest depends on the expected sparsity
        above = partial(wina_kernels.sparse_linear, sparsity=mask_sparsity(point))

    def masked(turn: int, rows: int) -> Work:
        drawn, w_t = inputs[turn % INPUTS], weights.transposed[turn % copies]
        if point.selection == "topk":
            return partial(backend.top_k_linear, drawn.x[:rows], w_t, scale, drawn.keep)
        return partial(above, drawn.x[:rows], w_t, scale, drawn.threshold)

    r = rank(point)
    if r == 0:
        return masked
    generator = _generator(weights.norms.device)
    right = torch.randn(copies, r, point.inputs, generator=generator, device=generator.device).to(weights.dense)
    left = torch.randn(copies, point.outputs, r, generator=generator, device=generator.device).to(weights.dense)

    def with_low_rank(turn: int, rows: int) -> Work:
        product, x = masked(turn, rows), inputs[turn % INPUTS].x[:rows]
        v, u = right[turn % copies], left[turn % copies]

        def work() -> Tensor:
            y = product()
            assert isinstance(y, Tensor)
            return y + functional.linear(functional.linear(x, v), u)

        return work

    return with_low_rank


def _generator(device: torch.device) -> torch.Generator:
    return torch.Generator(device=device).manual_seed(0)


_TORCH = "torch-int8"
_TORCH_BLOCK = 16
"""PyTorch's INT8 product reads inputs in blocks of this size, also beyond the last one (2.9, on processors)."""
_INT8_LARGEST, _INT4_LEVELS = 127, 15


def make_dense_product(
    point: LatencyPoint, weights: Weights, inputs: list[Inputs], kernels: Backend, copies: int
) -> Product:
    """Return the dense product of the point's backend; `copies` counts those of a quantized W.

    `kernels` is our backend of the device; it keeps every input. Rounding is to nearest, symmetric for each output in
    8 bits and between a group's extremes in 4 bits: the time does not depend on the codes.
    """
    bits = QUANTIZED_BITS.get(point.backend)
    if bits is None:
        return _kernel_product(list(weights.transposed), inputs, kernels)
    if point.backend == _TORCH:
        codes, scale = _int8(weights.transposed[0])
        rows = _padded(codes.t())
        product = _by_torch([rows.clone() for _ in range(copies)], scale.to(weights.dense.dtype), inputs)
    else:
        first = int8_weight(weights.transposed[0]) if bits == 8 else int4_weight(weights.transposed[0])
        product = _kernel_product([_copy(first) for _ in range(copies)], inputs, kernels)
    # Read once: twice the cache's size, they displace the quantized copies from it.
    weights.dense.sum()
    return product


def int8_weight(weight_t: Tensor) -> QuantizedWeight:
    """Round W^T [n, m] to INT8 with one scale for each output."""
    codes, scale = _int8(weight_t)
    return QuantizedWeight.of(codes, scale.reshape(1, -1), None, len(weight_t), 8)


def int4_weight(weight_t: Tensor) -> QuantizedWeight:
    """Round W^T [n, m] to INT4 with a scale and a zero for each output and group of INT4_GROUP inputs."""
    n, m = weight_t.shape
    groups = math.ceil(n / INT4_GROUP)
    codes = torch.empty(n, m, dtype=torch.uint8, device=weight_t.device)
    scale = torch.empty(groups, m, device=weight_t.device)
    zero = torch.empty_like(scale)
    for group, rows in enumerate(torch.split(weight_t, INT4_GROUP)):
        values = rows.float()
        low, high = values.amin(0), values.amax(0)
        scale[group] = ((high - low) / _INT4_LEVELS).clamp(min=torch.finfo(torch.float32).tiny)
        zero[group] = -low / scale[group]
        start = group * INT4_GROUP
        codes[start : start + len(rows)] = (values / scale[group] + zero[group]).round().clamp(0, _INT4_LEVELS)
    return QuantizedWeight.of(codes, scale, zero, INT4_GROUP, 4)


def _int8(weight_t: Tensor) -> tuple[Tensor, Tensor]:
    """Return codes [n, m] and the scales [m] of the outputs."""
    scale = (weight_t.float().abs().amax(0) / _INT8_LARGEST).clamp(min=torch.finfo(torch.float32).tiny)
    codes = torch.empty(weight_t.shape, dtype=torch.int8, device=weight_t.device)
    for block, rows in enumerate(weight_t.split(INT4_GROUP)):
        start = block * INT4_GROUP
        codes[start : start + len(rows)] = (rows.float() / scale).round()
    return codes, scale


def _copy(weight: QuantizedWeight) -> QuantizedWeight:
    zero = None if weight.zero is None else weight.zero.clone()
    return replace(weight, codes=weight.codes.clone(), scale=weight.scale.clone(), zero=zero)


def _kernel_product(copies: list[Tensor] | list[QuantizedWeight], inputs: list[Inputs], kernels: Backend) -> Product:
    def product(turn: int, rows: int) -> Work:
        return partial(kernels.sparse_linear, inputs[turn % INPUTS].x[:rows], copies[turn % len(copies)], None, 0.0)

    return product


def _padded(rows: Tensor) -> Tensor:
    """Return rows [b, n] with zeros behind them, up to a multiple of _TORCH_BLOCK columns, contiguous."""
    return functional.pad(rows, (0, -rows.shape[1] % _TORCH_BLOCK)).contiguous()


def _by_torch(copies: list[Tensor], scale: Tensor, inputs: list[Inputs]) -> Product:
    padded = [_padded(drawn.x) for drawn in inputs]

    def product(turn: int, rows: int) -> Work:
        return partial(
            torch.ops.aten._weight_int8pack_mm, padded[turn % INPUTS][:rows], copies[turn % len(copies)], scale
        )

    return product


INT4_GROUP = 64
"""Inputs that share a scale and a zero in the INT4 product."""
_SCALE_BYTES = 4
INPUTS = 8
"""Inputs that turns rotate over, so that no branch predictor learns a mask."""
_NORM_BYTES = 4
_WORKING_BYTES = 8
"""Working bytes for each weight: the reference uses float32 copies of the matrix and of the kept rows."""


def mask_sparsity(point: LatencyPoint) -> float:
    """Return the fraction of inputs that the mask drops: for R-Sparse more, since its low-rank part reads weights
    too."""
    return masked_fraction(point.sparsity, _rho()) if _has_low_rank(point) else point.sparsity


def rank(point: LatencyPoint) -> int:
    """Return the rank of the low-rank part; 0 without one."""
    return affordable_rank((point.outputs, point.inputs), point.sparsity, _rho()) if _has_low_rank(point) else 0


def read_bytes(point: LatencyPoint, read_inputs: float) -> float:
    """Return the bytes read if the rows of the batch keep `read_inputs` of the n inputs together.

    They are the weights of these inputs, the low-rank part, column norms (float32) if they score, and x. Quantized
    weights are read in full, with their scales.
    """
    x = point.batch * point.inputs * DTYPE_BYTES[point.dtype]
    if point.backend in QUANTIZED_BITS:
        return quantized_bytes(point) + x
    weights = read_inputs * point.outputs + rank(point) * (point.outputs + point.inputs)
    norms = _NORM_BYTES * point.inputs if point.method == "wina" else 0
    return weights * DTYPE_BYTES[point.dtype] + x + norms


def quantized_bytes(point: LatencyPoint) -> int:
    """Return the memory of one quantized W: codes, and float32 scales (and zeros) of each row or group."""
    bits = QUANTIZED_BITS[point.backend]
    scales = point.outputs * (2 * math.ceil(point.inputs / INT4_GROUP) if bits == 4 else 1)
    return math.ceil(point.outputs * bits / 8) * point.inputs + _SCALE_BYTES * scales


def copies(point: LatencyPoint, cache_bytes: int) -> int:
    """Return the copies of W to rotate over, so that the dense product reads twice the cache's size between two reads
    of one."""
    return 1 + math.ceil(2 * cache_bytes / (point.outputs * point.inputs * DTYPE_BYTES[point.dtype]))


def quantized_copies(point: LatencyPoint, cache_bytes: int) -> int:
    """Return the copies of a quantized W to rotate over, at most one for each turn."""
    return min(1 + math.ceil(2 * cache_bytes / quantized_bytes(point)), WARM_UP + point.repetitions)


def weight_bytes(point: LatencyPoint, copies: int) -> int:
    return 2 * copies * point.outputs * point.inputs * DTYPE_BYTES[point.dtype]


def further_bytes(point: LatencyPoint, copies: int, cache_bytes: int) -> int:
    """Return the point's other memory: copies of its low-rank part or its quantized W, x and y, and working space."""
    sides = point.outputs + point.inputs
    held = copies * rank(point) * sides + 2 * INPUTS * point.batch * sides
    quantized = 0
    if point.backend in QUANTIZED_BITS:
        quantized = quantized_copies(point, cache_bytes) * quantized_bytes(point)
    return held * DTYPE_BYTES[point.dtype] + quantized + _WORKING_BYTES * point.outputs * point.inputs


def _has_low_rank(point: LatencyPoint) -> bool:
    return point.method == RSparse.name and point.sparsity > 0


def _rho() -> float:
    assert RSparse.default_rho is not None
    return RSparse.default_rho


Contender = Callable[[int], Work]
"""Turn -> the timed work. Preparations happen here, outside of the timing."""
WARM_UP = 3
"""Turns before those that count."""
LONGEST_SECONDS = 0.8
"""Longest single call, so that a cancellation is seen within a second."""
_HEAD_START = 200_000
"""Cycles, about a tenth of a millisecond, that keep a GPU busy before each call, so that launch time is not
measured."""


def time_turns(
    contenders: Sequence[Contender], repetitions: int, device: torch.device, reporter: Reporter
) -> list[list[float]]:
    """Return milliseconds by contender and turn, after WARM_UP turns."""
    timed = _on_cuda if device.type == "cuda" else _on_cpu
    times: list[list[float]] = [[] for _ in contenders]
    for turn in range(WARM_UP + repetitions):
        for contender, durations in zip(contenders, times, strict=True):
            reporter.check()
            durations.append(timed(contender(turn)))
    return [durations[WARM_UP:] for durations in times]


def check_quick(by_rows: Callable[[int], Work], batch: int, reporter: Reporter) -> None:
    """Call with 1, 2, 4, ... up to `batch` rows; raise WinaError before a call that would take too long.

    For the processor alone, whose calls cannot be interrupted and can take minutes. Each call runs twice, since the
    first may compile.
    """
    rows = 1
    while True:
        for _ in range(2):
            reporter.check()
            milliseconds = _on_cpu(by_rows(rows))
        if rows == batch:
            return
        following = min(2 * rows, batch)
        expected = milliseconds / 1e3 * following / rows
        if expected > LONGEST_SECONDS:
            raise WinaError(
                f"one call with {following} rows would take about {expected:.1f} s, too long to be cancelled within a "
                "second; choose a smaller batch or another backend."
            )
        rows = following


def _on_cpu(work: Work) -> float:
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) / 1e6


def _on_cuda(work: Work) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(_HEAD_START)
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)
