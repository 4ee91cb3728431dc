"""Codes of a quantized matrix before they are packed, and the grouping of its inputs."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

SCALES = torch.float16
"""Dtype of scales and zeros."""
LARGEST_ZERO = float(torch.finfo(SCALES).max)


def levels(bits: int) -> tuple[int, int]:
    """Return the lowest and the highest code: symmetric around 0 for 8 bits, else from 0."""
    return (-127, 127) if is_symmetric(bits) else (0, 2**bits - 1)


def is_symmetric(bits: int) -> bool:
    """Return whether codes of so many bits have no zero point: 8 bits, where it saves less than it takes."""
    return bits == 8


@dataclass(frozen=True)
class Codes:
    """W^T [n, m] as codes: W^T[i, j] = (codes[i, j] - zero[g, j]) * scale[g, j] with g = i // group."""

    codes: Tensor
    """[n, m], int8 for 8 bits, else uint8."""
    scale: Tensor
    """[ceil(n / group), m], float16."""
    zero: Tensor | None
    """Like `scale`; None for 0."""
    group: int
    bits: int

    def dequantize(self) -> Tensor:
        """Return W^T, float32 [n, m]."""
        values = grouped(self.codes.float(), self.group)
        if self.zero is not None:
            values = values - self.zero.float()[:, None]
        return (values * self.scale.float()[:, None]).flatten(0, 1)[: len(self.codes)]


def grouped(rows: Tensor, group: int) -> Tensor:
    """Return rows [n, m] as [ceil(n / group), group, m], the last group filled with copies of the last row."""
    missing = -len(rows) % group
    if missing:
        rows = torch.cat((rows, rows[-1:].expand(missing, -1)))
    return rows.unflatten(0, (-1, group))


def grouped_weights(importance: Tensor, group: int) -> Tensor:
    """Return the importance [n] of inputs as [ceil(n / group), group, 1], 0 for copies in the last group."""
    return functional.pad(importance, (0, -len(importance) % group)).view(-1, group, 1)


def encode(weight_t: Tensor, scale: Tensor, zero: Tensor | None, bits: int) -> Tensor:
    """Return the nearest codes of grouped weights [groups, group, m] as float32, for scale and zero [groups, m]."""
    low, high = levels(bits)
    codes = weight_t / scale[:, None]
    if zero is not None:
        codes = codes + zero[:, None]
    return codes.round_().clamp_(low, high)
