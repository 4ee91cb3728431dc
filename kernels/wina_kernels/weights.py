"""Weights as the kernels read them: transposed, so that all weights of one input are contiguous."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, eq=False)
class QuantizedWeight:
    """W^T [n, m] in 8 or 4 bits: W^T[i, j] = (code[i, j] - zero[g, j]) * scale[g, j] with g = i // group."""

    codes: Tensor
    """8 bits: int8 [n, m]. 4 bits: uint8 [n, ceil(m / 2)], an even output in the low half of a byte, the next above."""
    scale: Tensor
    """[ceil(n / group), m], float32, bfloat16 or float16."""
    zero: Tensor | None
    """Like `scale`; None for 0."""
    group: int
    """Inputs that share scales; n if all of an output's do."""
    bits: Literal[8, 4]

    @property
    def shape(self) -> tuple[int, int]:
        """(n inputs, m outputs)."""
        return len(self.codes), self.scale.shape[1]

    @property
    def device(self) -> torch.device:
        """Device of the codes."""
        return self.codes.device

    def dequantize(self) -> Tensor:
        """Return W^T, float32 [n, m]."""
        codes = self.codes
        if self.bits == 4:
            codes = torch.stack((codes & 0xF, codes >> 4), dim=-1).flatten(1)[:, : self.shape[1]]
        values = codes.to(torch.float32, copy=True)
        for own, rows in enumerate(torch.split(values, self.group)):
            if self.zero is not None:
                rows -= self.zero[own].float()
            rows *= self.scale[own].float()
        return values


WeightT = Tensor | QuantizedWeight
"""W^T [n, m]: float32, bfloat16 or float16 with contiguous rows, or quantized."""


def pack_halves(codes: Tensor) -> Tensor:
    """Pack 4-bit codes [n, m] of 0 to 15 into uint8 [n, ceil(m / 2)], two to a byte as in QuantizedWeight."""
    if codes.shape[1] % 2:
        codes = torch.nn.functional.pad(codes, (0, 1))
    codes = codes.to(torch.uint8)
    return (codes[:, 0::2] | (codes[:, 1::2] << 4)).contiguous()
