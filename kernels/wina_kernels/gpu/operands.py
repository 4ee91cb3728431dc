"""The kernels' operands. `dispatch` checks before a backend is called that arguments fit together."""

from __future__ import annotations

import functools
import math
import os
import shutil
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton
from torch import Tensor

from wina_kernels.weights import MixedWeight, QuantizedWeight, WeightT, form

INTERPRETED = bool(triton.knobs.runtime.interpret)
"""Whether the kernels run on the processor: TRITON_INTERPRET at import."""


def rows_of(x: Tensor) -> Tensor:
    """Return x [..., n] as [rows, n], each row contiguous; raise ValueError if Triton cannot work on its device."""
    require_gpu(x.device, x.dtype)
    n = x.shape[-1]
    rows = x.detach().reshape(math.prod(x.shape[:-1]), n)
    return rows if n == 1 or rows.stride(1) == 1 else rows.contiguous()


def column_scale_of(scale: Tensor | None) -> Tensor | None:
    return None if scale is None else scale.detach().contiguous()


def weight_arguments(weight_t: WeightT) -> tuple[Any, ...]:
    """Return weight, stride, scale, scale_stride, zero, zero_stride, group of the kernels."""
    if isinstance(weight_t, Tensor):
        return *_matrix(weight_t), None, 0, None, 0, 1
    if isinstance(weight_t, MixedWeight) or weight_t.bits not in (8, 4) or weight_t.signed:
        raise ValueError(f"The Triton kernels take floats and unsigned codes of 8 or 4 bits, not {form(weight_t)}.")
    zero = (None, 0) if weight_t.zero is None else _matrix(weight_t.zero)
    return *_matrix(weight_t.codes), *_matrix(weight_t.scale), *zero, weight_t.group


def bits_of(weight_t: WeightT) -> int:
    if isinstance(weight_t, MixedWeight):
        return max(map(bits_of, weight_t.runs))
    return weight_t.bits if isinstance(weight_t, QuantizedWeight) else 8 * weight_t.element_size()


def is_uniform(weight_t: WeightT, block: int) -> bool:
    """Return whether every block of inputs lies within one group of scales."""
    if not isinstance(weight_t, QuantizedWeight):
        return True
    return weight_t.group >= weight_t.shape[0] or weight_t.group % block == 0


def current(device: torch.device) -> AbstractContextManager[object]:
    # Triton launches on the current device, whatever device the tensors are on.
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


# Cached, because it searches PATH and runs before every product.
@functools.cache
def require_gpu(device: torch.device, dtype: torch.dtype) -> None:
    """Raise ValueError, with the reason and an alternative, if Triton cannot work on this device or in this dtype."""
    if INTERPRETED:
        return
    if device.type != "cuda":
        raise ValueError(f'x is on {device} and the Triton backend needs a GPU; the backend "reference" works there.')
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang") or triton.knobs.build.impl):
        raise ValueError(
            "Triton needs a C compiler to launch its kernels, and neither gcc nor clang is on the PATH; install one, "
            'point the environment variable CC to one, or use the backend "reference".'
        )
    if torch.version.hip is None and dtype == torch.bfloat16 and torch.cuda.get_device_capability(device) < (8, 0):
        major, minor = torch.cuda.get_device_capability(device)
        raise ValueError(
            f"bfloat16 needs compute capability 8.0, and {torch.cuda.get_device_name(device)} has {major}.{minor}; "
            "use float16 or float32."
        )


def _matrix(matrix: Tensor) -> tuple[Tensor, int]:
    if matrix.shape[1] > 1 and matrix.stride(1) != 1:
        raise ValueError(
            f"A weight's matrix {list(matrix.shape)} has strides {list(matrix.stride())} and its rows are not "
            "contiguous; call .contiguous() once, when the model is prepared."
        )
    return matrix.detach(), matrix.stride(0)
