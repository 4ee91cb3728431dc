"""Dense products of many rows with W^T in bfloat16, in an order or with sums that PyTorch's library does not serve."""

from __future__ import annotations

import torch
from torch import Tensor

from wina_kernels.native.abi import address, format_of, loaded, most_threads
from wina_kernels.weights import are_recorded


def multiply_rows(x: Tensor, weight_t: Tensor, bias: Tensor | None = None) -> Tensor | None:
    """Return x [..., n] @ W^T [n, m] + bias [m] in bfloat16, rounded once, or None where no kernel serves.

    One serves bfloat16 on processors with AVX-512 BF16 and without AMX, an even n and rows of W^T that are contiguous.
    It reads numbers below 2^-126 as 0.
    """
    return _product(x, weight_t, bias, torch.bfloat16)


def multiply_in_float32(x: Tensor, weight_t: Tensor) -> Tensor:
    """Return x [..., n] @ W^T [n, m] of bfloat16 numbers in float32: only the sums are rounded.

    By the processor's instructions for bfloat16, which are several times as fast as those for float32, where it has
    AVX-512 BF16.
    """
    y = _product(x, weight_t, None, torch.float32)
    return x.float() @ weight_t.float() if y is None else y


def _product(x: Tensor, weight_t: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    n, m = weight_t.shape
    given = [x, weight_t] if bias is None else [x, weight_t, bias]
    served = all(each.dtype == torch.bfloat16 and each.is_cpu for each in given) and weight_t.stride(1) == 1
    fits = x.shape[-1:] == (n,) and (bias is None or bias.shape == (m,))
    recorded = are_recorded(*given)
    if not served or not fits or recorded or n % 2 or not x.numel() * m or (library := loaded()) is None:
        return None
    x, y = x.contiguous(), torch.empty(*x.shape[:-1], m, dtype=dtype)
    bias, rows = None if bias is None else bias.contiguous(), x.numel() // n
    done = library.wina_many_rows(
        weight_t.data_ptr(), weight_t.stride(0), n, m, address(bias), x.data_ptr(), rows, y.data_ptr(),
        format_of(dtype), min(torch.get_num_threads(), most_threads(2 * n * m * rows)),
    )  # fmt: skip
    return y if done == 0 else None
