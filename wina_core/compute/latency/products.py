"""The timed products: weights in cold copies, inputs of exact sparsity, the dense call and the gated one."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import wina_kernels
from torch import Tensor
from torch.nn import functional
from wina_kernels.backends import Backend
from wina_kernels.reference import threshold_masks
from wina_kernels.selection import kept_inputs, scores, top_k_mask

from wina_core.compute.latency.arithmetic import INPUTS, mask_sparsity, rank
from wina_core.compute.latency.timing import Work
from wina_core.compute.reporter import Reporter
from wina_core.specs.latency import DISPATCHED, LatencyPoint

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
    """Draw several x ~ N(0, 1), each with the threshold that drops exactly the wanted fraction of its scores.

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
    """Return the dropped fraction over all rows."""
    return 1.0 - sum(float(each.mask.double().mean()) for each in inputs) / len(inputs)


def kept_by_any_row(inputs: list[Inputs]) -> float:
    """Return the mean number of inputs whose weights must be read: the union over a batch's rows."""
    return sum(int(each.mask.any(0).sum()) for each in inputs) / len(inputs)


Product = Callable[[int, int], Work]
"""(turn, rows) -> the product of so many rows of the turn's input with the turn's copy."""


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
    if point.backend == DISPATCHED:  # it chooses by what is expected to be dropped
        above = partial(wina_kernels.sparse_linear, sparsity=mask_sparsity(point))

    def masked(turn: int, rows: int) -> Work:
        given, w_t = inputs[turn % INPUTS], weights.transposed[turn % copies]
        if point.selection == "topk":
            return partial(backend.top_k_linear, given.x[:rows], w_t, scale, given.keep)
        return partial(above, given.x[:rows], w_t, scale, given.threshold)

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
