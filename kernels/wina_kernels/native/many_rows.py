"""The dense product of prompts and batches with W^T in bfloat16, which PyTorch's library reads in W's order faster."""

from __future__ import annotations

import torch
from torch import Tensor

from wina_kernels.native.abi import loaded, most_threads


def multiply_rows(x: Tensor, weight_t: Tensor) -> Tensor | None:
    """Return x [..., n] @ W^T [n, m], summed in float32, or None where no kernel serves.

    One serves bfloat16 on processors with AVX-512 BF16, an even n and rows of W^T that are contiguous.
    """
    n, m = weight_t.shape
    served = x.dtype == weight_t.dtype == torch.bfloat16 and x.is_cpu and weight_t.is_cpu and weight_t.stride(1) == 1
    recorded = torch.is_grad_enabled() and (x.requires_grad or weight_t.requires_grad)
    if not served or recorded or n % 2 or not x.numel() * m or (library := loaded()) is None:
        return None
    given, y = x.contiguous(), torch.empty(*x.shape[:-1], m, dtype=x.dtype)
    done = library.wina_many_rows(
        weight_t.data_ptr(), weight_t.stride(0), n, m, given.data_ptr(), given.numel() // n, y.data_ptr(),
        min(torch.get_num_threads(), most_threads(2 * n * m)),
    )  # fmt: skip
    return y if done == 0 else None
