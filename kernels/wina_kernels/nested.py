"""Weights whose upper bits are a weight of their own: an input that matters less is read with 4 bits, not 8 or 6."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from wina_kernels.packing import pack, unpack

UPPER_BITS = 4
NestedBits = Literal[8, 6, 4]
NESTED_BITS: tuple[NestedBits, ...] = get_args(NestedBits)
_CLIPS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)


@dataclass(frozen=True, eq=False)
class NestedWeight:
    """W^T [n, m]: W^T[i, j] = (code[i, j] + 1/2) * scale[i, g] + zero[i, g] with g = j // group.

    Groups lie along the outputs, so that a dropped input's scales are not read either. The upper 4 bits alone give the
    coarse weight, (upper + 1/2) * 2^(bits - 4) in the place of code + 1/2: the middle of the codes that share them.
    """

    upper: Tensor
    """uint8 [n, bytes]: the upper 4 bits of each code, packed by `packing`."""
    lower: Tensor | None
    """The bits below, packed likewise; None for 4 bits."""
    scale: Tensor
    """float16 [n, ceil(m / group)]."""
    zero: Tensor
    """Like `scale`."""
    group: int
    """Outputs of an input that share a scale."""
    outputs: int
    bits: NestedBits

    @property
    def shape(self) -> tuple[int, int]:
        """(n inputs, m outputs)."""
        return len(self.upper), self.outputs

    @property
    def device(self) -> torch.device:
        """Device of the codes."""
        return self.upper.device

    @property
    def bytes(self) -> int:
        """Bytes of codes, scales and zeros."""
        return sum(part.nbytes for part in (self.upper, self.lower, self.scale, self.zero) if part is not None)

    def dequantize(self, *, coarse: bool = False) -> Tensor:
        """Return W^T, float32 [n, m]; if `coarse`, of the upper 4 bits."""
        codes: Tensor = unpack(self.upper, UPPER_BITS, self.outputs).float()
        below = self.bits - UPPER_BITS
        if self.lower is not None and not coarse:
            codes = codes * 2**below + unpack(self.lower, below, self.outputs).float() + 0.5
        else:
            codes = (codes + 0.5) * 2**below
        spread = torch.arange(self.outputs, device=self.device) // self.group
        return codes.mul_(self.scale.float()[:, spread]).add_(self.zero.float()[:, spread])


def nest(weight_t: Tensor, bits: NestedBits, group: int) -> NestedWeight:
    """Quantize W^T [n, m] of floats, with ranges of the least squared error of the coarse weight.

    Raises ValueError for bits without a nested code.
    """
    if bits not in NESTED_BITS:
        raise ValueError(f"Nested codes have {', '.join(map(str, NESTED_BITS))} bits, not {bits}.")
    n, m = weight_t.shape
    groups = math.ceil(m / group)
    values = torch.cat((weight_t.float(), weight_t[:, -1:].float().expand(-1, groups * group - m)), dim=1)
    values = values.view(n, groups, group)
    low, high = values.amin(-1), values.amax(-1)
    best: tuple[Tensor, Tensor, Tensor] | None = None
    for clip in _CLIPS if bits == UPPER_BITS else _CLIPS[:1]:  # clipping harms the bits below
        scale, zero = _range(low, high, clip, bits)
        error = (_decoded(_codes(values, scale, zero, bits), scale, zero) - values).square().sum(-1)
        if best is None:
            best = error, scale, zero
        else:
            better = error < best[0]
            error, scale, zero = (
                torch.where(better, new, old) for new, old in zip((error, scale, zero), best, strict=True)
            )
            best = error, scale, zero
    assert best is not None  # there is a first clip
    _, scale, zero = best
    codes = _codes(values, scale, zero, bits).to(torch.uint8).flatten(1)[:, :m]
    below = bits - UPPER_BITS
    lower = pack(codes & (2**below - 1), below) if below else None
    return NestedWeight(
        pack(codes >> below, UPPER_BITS), lower, scale.to(torch.float16), zero.to(torch.float16), group, m, bits
    )


def fine_factor(weight: NestedWeight, weight_t: Tensor) -> float:
    """Return how many times the score from which an input is kept is the one from which all its bits are read.

    Of an input with score s, dropping costs the squared error s^2, the coarse weight e_c s^2 and all bits e_f s^2, with
    e the relative squared errors against `weight_t` [n, m]. At equal gain per bit, the two scores are apart by
    sqrt(((1 - e_c) / 4) / ((e_c - e_f) / (bits - 4))). Infinite for 4 bits.
    """
    below = weight.bits - UPPER_BITS
    if not below:
        return math.inf
    total = float(weight_t.float().square().sum())
    coarse, fine = (
        float((weight.dequantize(coarse=each) - weight_t).square().sum()) / max(total, 1e-30) for each in (True, False)
    )
    return math.sqrt((1 - coarse) / UPPER_BITS * below / max(coarse - fine, 1e-12))


def _range(low: Tensor, high: Tensor, clip: float, bits: int) -> tuple[Tensor, Tensor]:
    middle, half = (low + high) / 2, (high - low) / 2 * clip
    scale = (2 * half / 2**bits).clamp(min=2.0**-24).to(torch.float16).float()
    return scale, (middle - half).to(torch.float16).float()


def _codes(values: Tensor, scale: Tensor, zero: Tensor, bits: int) -> Tensor:
    return ((values - zero[..., None]) / scale[..., None]).floor_().clamp_(0, 2**bits - 1)


def _decoded(codes: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return (codes + 0.5) * scale[..., None] + zero[..., None]
