"""Weights in planes of 2 bits: the first planes of an input alone are its weights in fewer bits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import embedding

from wina_kernels.packing import pack, packed_bytes

PLANE_BITS = 2
MOST_PLANES = 6
_SMALLEST = 2.0**-14
"""Smallest scale: float16 holds it with all its digits."""


@dataclass(frozen=True, eq=False)
class PlaneWeight:
    """W^T [n, m]: W^T[i, j] = scale[i] * sum of 4^-p (code[i, p, j] - 3/2) over the planes p = 0, 1, ... of input i.

    With the first l planes alone, a weight is the middle of all weights that begin with the same codes. The planes of
    an input lie one after the other, so that l of them are read in one piece.
    """

    codes: Tensor
    """uint8 [all planes, ceil(m / 4)], each row packed by `packing`; an input's highest plane first."""
    scale: Tensor
    """float16 [n]: half of the largest weight of an input."""
    planes: Tensor | None
    """uint8 [n]: planes of each input; None if all have equally many."""
    outputs: int
    errors: tuple[float, ...]
    """Squared error of the weights in the first 1, 2, ... MOST_PLANES planes, over that of none."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n inputs, m outputs)."""
        return len(self.scale), self.outputs

    @property
    def device(self) -> torch.device:
        return self.codes.device

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in (self.codes, self.scale, self.planes) if tensor is not None)

    @cached_property
    def counts(self) -> Tensor:
        """Planes of each input, int64 [n]."""
        if self.planes is not None:
            return self.planes.long()
        planes_per_input = len(self.codes) // max(len(self.scale), 1)
        return torch.full((len(self.scale),), planes_per_input, device=self.device)

    @cached_property
    def held(self) -> Tensor:
        return self.counts.to(torch.uint8)

    @cached_property
    def starts(self) -> Tensor:
        """Row of `codes` at which each input's planes begin, int64 [n]."""
        return self.counts.cumsum(0) - self.counts

    @cached_property
    def gains(self) -> tuple[float, ...]:
        """Reduction of `errors` by each plane, never rising: averaged over neighbours if a later plane gains more."""
        pools: list[tuple[float, int]] = []
        for before, after in pairwise((1.0, *self.errors)):
            gain, count = before - after, 1
            # Pool adjacent violators: gains that rise from plane to plane are averaged, so that the ladder rises.
            while pools and pools[-1][0] <= gain:
                other, more = pools.pop()
                gain, count = (gain * count + other * more) / (count + more), count + more
            pools.append((gain, count))
        return tuple(gain for gain, count in pools for _ in range(count))

    @cached_property
    def ladder(self) -> tuple[float, ...]:
        """Score from which the second, third, ... plane is read, over the score from which an input is kept.

        Of an input with score s, a plane lowers the squared error by its gain times s^2; at these scores all planes
        gain equally.
        """
        # A plane that gains nothing gets a ratio that no score reaches.
        return tuple(math.sqrt(max(self.gains[0], 0.0) / max(gain, 1e-30)) for gain in self.gains[1:])

    def dequantize(self, most: int = MOST_PLANES) -> Tensor:
        """Return W^T, float32 [n, m], of the first `most` planes of each input."""
        weight_t = torch.zeros(self.shape, device=self.device)
        for index, (inputs, plane) in enumerate(self._planes(self.held.clamp(max=most))):
            weight_t[inputs] += plane * (self.scale[inputs].float() * 4.0**-index)[:, None]
        return weight_t

    def levels(self, score: Tensor, boundary: Tensor) -> Tensor:
        """Return how many planes of each input are read, uint8 [..., n], of inputs that are kept.

        Args:
            score: Scores of the inputs, [..., n].
            boundary: Score from which an input is kept, [..., 1].
        """
        levels = torch.ones_like(score, dtype=torch.uint8)
        for factor in self.ladder[: int(self.counts.max()) - 1]:
            levels += score >= boundary * factor
        return torch.minimum(levels, self.held)

    def product(self, x: Tensor, levels: Tensor) -> Tensor:
        """Return y [..., m] of x [..., n], each input read in its first `levels`, uint8 [..., n]; 0 drops it."""
        wide = torch.promote_types(x.dtype, torch.float32)
        rows, levels = (x.to(wide) * self.scale).to(x.dtype).flatten(0, -2), levels.flatten(0, -2)
        y = x.new_zeros(len(rows), self.outputs)
        most = levels.amax(0) if len(levels) else self.held[:0]
        for index, (inputs, plane) in enumerate(self._planes(most)):
            # Indexing copies, which is spared if every input is read.
            if len(inputs) < len(self.scale):
                read = rows[:, inputs] * (levels[:, inputs] > index)
            else:
                read = rows * (levels > index)
            y.addmm_(read, plane.to(x.dtype), alpha=4.0**-index)
        return y.view(*x.shape[:-1], self.outputs)

    def _planes(self, most: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield for each plane the inputs that are read in it, int64, and its codes minus 3/2, float32.

        `most` is the number of planes that are read of each input, uint8 [n].
        """
        for index in range(int(most.max()) if len(most) else 0):
            inputs = (most > index).nonzero().flatten()
            rows = self.codes[self.starts[inputs] + index].int()
            # Looked up byte by byte, which decodes four codes at once.
            yield inputs, embedding(rows, _values(rows.device)).flatten(1)[:, : self.outputs]


@cache
def _values(device: torch.device) -> Tensor:
    """Return the four codes of each byte minus 3/2, float32 [256, 4]."""
    shifts = torch.arange(0, 8, PLANE_BITS, device=device)
    return ((torch.arange(256, device=device)[:, None] >> shifts) & 3).float() - 1.5


def in_planes(weight_t: Tensor, planes: int | Tensor) -> PlaneWeight:
    """Quantize W^T [n, m] of floats; `planes` is the number for every input, or one for each, int [n].

    Raises ValueError for fewer planes than 1 or more than MOST_PLANES.
    """
    n, m = weight_t.shape
    counts = torch.full((n,), planes) if isinstance(planes, int) else planes
    counts = counts.to(weight_t.device, torch.int64)
    if n and not 1 <= int(counts.min()) <= int(counts.max()) <= MOST_PLANES:
        raise ValueError(f"{int(counts.min())} to {int(counts.max())} planes; an input has 1 to {MOST_PLANES}.")
    weights = weight_t.float()
    # The lower bound also keeps inputs whose weights are all 0 from dividing by 0.
    scale = (weights.abs().amax(1) / 2).clamp(_SMALLEST, 2.0**15).to(torch.float16)
    whole = 4**MOST_PLANES
    # The step among 4^MOST_PLANES from -2 to 2 scales; each plane is a digit of it to base 4, the highest first.
    # Clamped: the largest weight itself would be step 4^MOST_PLANES, and float16 rounds the scale.
    codes = ((weights / scale.float()[:, None] + 2) * (whole / 4)).floor_().clamp_(0, whole - 1).to(torch.int32)
    rows = torch.empty(int(counts.sum()), packed_bytes(PLANE_BITS, m), dtype=torch.uint8, device=weight_t.device)
    starts = counts.cumsum(0) - counts
    for index in range(int(counts.max()) if n else 0):
        inputs = (counts > index).nonzero().flatten()
        plane_codes = codes[inputs] >> (PLANE_BITS * (MOST_PLANES - 1 - index)) & 3
        rows[starts[inputs] + index] = pack(plane_codes.to(torch.uint8), PLANE_BITS)
    stored = None if bool((counts == counts[:1]).all()) else counts.to(torch.uint8)
    return PlaneWeight(rows, scale, stored, m, _errors(weights, codes, scale.float()))


def _errors(weights: Tensor, codes: Tensor, scale: Tensor) -> tuple[float, ...]:
    """Return `PlaneWeight.errors` of weights [n, m], their codes in all planes and scales [n]."""
    total, errors = float(weights.square().sum()), []
    if total == 0:
        return (0.0,) * MOST_PLANES
    for planes in range(1, MOST_PLANES + 1):
        below = 4 ** (MOST_PLANES - planes)
        # The middle of all codes that begin with these planes: what they decode to without the others.
        middles = (torch.div(codes, below, rounding_mode="floor") + 0.5) * (4 * below / 4**MOST_PLANES) - 2
        errors.append(float((middles * scale[:, None] - weights).square().sum()) / total)
    return tuple(errors)
