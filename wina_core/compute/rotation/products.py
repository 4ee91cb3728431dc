"""Products of 16-bit weights and activations with matrices of more digits, by instructions for bfloat16.

Products of bfloat16 numbers are exact and their sums are in float32, several times as fast as products of float32
numbers; numbers of more digits are sums of bfloat16 numbers.
"""

from functools import reduce

import torch
from torch import Tensor
from wina_kernels.native.many_rows import multiply_in_float32

_DIGITS, _MEAN_DIGITS = 3, 2
"""Numbers in bfloat16 for one of more digits: 24 bits for what is rounded once, 16 for what is averaged over tokens."""


def parts(matrix: Tensor, count: int = _DIGITS) -> tuple[Tensor, ...]:
    """Return bfloat16 matrices whose sum is `matrix`, but for 2^(-8 count) of each number."""
    found = []
    for _ in range(count):
        found.append(matrix.bfloat16())
        matrix = matrix - found[-1].to(matrix.dtype)
    return tuple(found)


def times(weight: Tensor, matrix: tuple[Tensor, ...]) -> Tensor:
    """Return W M of bfloat16 W [m, n] and the `parts` of M [n, k], float32 [m, k]."""
    return reduce(Tensor.add_, (multiply_in_float32(weight, part) for part in reversed(matrix)))


def times_from_left(matrix: tuple[Tensor, ...], weight: Tensor) -> Tensor:
    """Return M W of the `parts` of M [k, m] and bfloat16 W [m, n], float32 [k, n]."""
    return reduce(Tensor.add_, (multiply_in_float32(part, weight) for part in reversed(matrix)))


def gram(x: Tensor) -> Tensor:
    """Return x^T x of x [tokens, n], float32 [n, n], but for 2^-15 of each product."""
    high, low = parts(x, _MEAN_DIGITS)
    rows = high.T.contiguous()
    found = multiply_in_float32(rows, high).add_(multiply_in_float32(rows, low), alpha=2)
    return (found + found.T).div_(2)  # a product sums an element and its mirror image in orders of their own


def fits(weight: Tensor) -> bool:
    """Return whether a weight is served."""
    return weight.dtype == torch.bfloat16 and weight.is_cpu
