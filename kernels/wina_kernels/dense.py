"""Dense products: of prompts, of batches that together keep almost every input, and of many rows with W^T in
bfloat16, in an order or with sums that PyTorch's library does not serve.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from wina_kernels.native.abi import address, format_of, loaded, most_threads
from wina_kernels.weights import FLOATS, WeightT, are_recorded

MOST_ROWS = 8  # as WINA_MOST_ROWS in native/wina.h; more rows are a dense product
"""More rows together keep so many inputs that all weights are read anyway."""


def is_small_batch(x: Tensor) -> bool:
    return 0 < x.numel() <= MOST_ROWS * x.shape[-1]


def is_supported(x: Tensor) -> bool:
    return x.dtype in FLOATS and not are_recorded(x)


def dense_product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return `functional.linear`, without its loss of speed for bfloat16 weights whose memory is transposed."""
    y = multiply_rows(x, weight.t(), bias)
    return functional.linear(x, weight, bias) if y is None else y


def masked_dense(x: Tensor, weight_t: WeightT, mask: Tensor) -> Tensor:
    """Compute `reference.masked_linear` with 0 for dropped inputs; their weights must be finite."""
    weight = (weight_t if isinstance(weight_t, Tensor) else weight_t.dequantize()).to(x.dtype)
    # Filled rather than multiplied by 0, so that a dropped NaN or infinity of x does not spread.
    return dense_product(x.masked_fill(mask.logical_not(), 0), weight.t())


def multiply_rows(x: Tensor, weight_t: Tensor, bias: Tensor | None = None) -> Tensor | None:
    """Return x [..., n] @ W^T [n, m] + bias [m] in bfloat16, rounded once, or None if no kernel supports it.

    The kernel needs bfloat16, a processor with AVX-512 BF16 and without AMX, an even n and contiguous rows of W^T. It
    reads numbers below 2^-126 as 0.
    """
    return _product(x, weight_t, bias, torch.bfloat16)


def multiply_in_float32(x: Tensor, weight_t: Tensor) -> Tensor:
    """Return x [..., n] @ W^T [n, m] of bfloat16 numbers in float32: only the sums are rounded.

    With AVX-512 BF16 it uses the processor's instructions for bfloat16, several times as fast as those for float32.
    """
    y = _product(x, weight_t, None, torch.float32)
    return x.float() @ weight_t.float() if y is None else y


def _product(x: Tensor, weight_t: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    n, m = weight_t.shape
    operands = [x, weight_t] if bias is None else [x, weight_t, bias]
    served = all(operand.dtype == torch.bfloat16 and operand.is_cpu for operand in operands) and weight_t.stride(1) == 1
    fits = x.shape[-1:] == (n,) and (bias is None or bias.shape == (m,))
    recorded = are_recorded(*operands)
    # n is even because the instructions multiply pairs of bfloat16 numbers.
    if not served or not fits or recorded or n % 2 or not x.numel() * m or (library := loaded()) is None:
        return None
    x, y = x.contiguous(), torch.empty(*x.shape[:-1], m, dtype=dtype)
    bias, rows = None if bias is None else bias.contiguous(), x.numel() // n
    done = library.wina_many_rows(
        weight_t.data_ptr(), weight_t.stride(0), n, m, address(bias), x.data_ptr(), rows, y.data_ptr(),
        format_of(dtype), min(torch.get_num_threads(), most_threads(2 * n * m * rows)),
    )  # fmt: skip
    return y if done == 0 else None  # the processor lacks the instructions or has better ones, or memory ran out
