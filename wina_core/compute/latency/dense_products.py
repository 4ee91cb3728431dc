"""Dense products besides PyTorch's: our kernels at 0 %, and products with INT8 or INT4 weights."""

import math
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional
from wina_kernels.backends import Backend
from wina_kernels.weights import QuantizedWeight

from wina_core.compute.latency.arithmetic import INPUTS, INT4_GROUP
from wina_core.compute.latency.products import Inputs, Product, Weights
from wina_core.compute.latency.timing import Work
from wina_core.specs.latency import QUANTIZED_BITS, LatencyPoint

_TORCH = "torch-int8"
_TORCH_BLOCK = 16
"""PyTorch's INT8 product reads inputs in blocks of so many, also beyond the last one (2.9, on processors)."""
_INT8_LARGEST, _INT4_LEVELS = 127, 15


def make_dense_product(
    point: LatencyPoint, weights: Weights, inputs: list[Inputs], kernels: Backend, copies: int
) -> Product:
    """Return the dense product of the point's backend; `copies` counts those of a quantized W.

    `kernels` is our backend of the device; it keeps every input. At last `weights`, twice the cache's size, are read,
    so that the cache holds none of the quantized copies. Rounding is to nearest, symmetric for each output in
    8 bits and between a group's extremes in 4 bits: the time does not depend on the codes.
    """
    bits = QUANTIZED_BITS.get(point.backend)
    if bits is None:
        return _own(list(weights.transposed), inputs, kernels)
    if point.backend == _TORCH:
        codes, scale = _int8(weights.transposed[0])
        rows = _padded(codes.t())
        product = _by_torch([rows.clone() for _ in range(copies)], scale.to(weights.dense.dtype), inputs)
    else:
        first = int8_weight(weights.transposed[0]) if bits == 8 else int4_weight(weights.transposed[0])
        product = _own([_copy(first) for _ in range(copies)], inputs, kernels)
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
    for place, rows in enumerate(weight_t.split(INT4_GROUP)):
        start = place * INT4_GROUP
        codes[start : start + len(rows)] = (rows.float() / scale).round()
    return codes, scale


def _copy(weight: QuantizedWeight) -> QuantizedWeight:
    zero = None if weight.zero is None else weight.zero.clone()
    return replace(weight, codes=weight.codes.clone(), scale=weight.scale.clone(), zero=zero)


def _own(copies: list[Tensor] | list[QuantizedWeight], inputs: list[Inputs], kernels: Backend) -> Product:
    def product(turn: int, rows: int) -> Work:
        return partial(kernels.sparse_linear, inputs[turn % INPUTS].x[:rows], copies[turn % len(copies)], None, 0.0)

    return product


def _padded(rows: Tensor) -> Tensor:
    """Return rows [b, n] with zeros behind them, up to a multiple of _TORCH_BLOCK columns, contiguous."""
    return functional.pad(rows, (0, -rows.shape[1] % _TORCH_BLOCK)).contiguous()


def _by_torch(copies: list[Tensor], scale: Tensor, inputs: list[Inputs]) -> Product:
    padded = [_padded(each.x) for each in inputs]

    def product(turn: int, rows: int) -> Work:
        return partial(
            torch.ops.aten._weight_int8pack_mm, padded[turn % INPUTS][:rows], copies[turn % len(copies)], scale
        )

    return product
