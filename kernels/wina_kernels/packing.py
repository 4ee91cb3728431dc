"""Codes of fewer than 8 bits in bytes.

A row of m codes is stored in planes of 4, 2 or 1 bits, one plane after the other, the lowest bits first: 6 bits are a
plane of 4 and one of 2, 3 bits one of 2 and one of 1. Within a plane neighbouring outputs share a byte, the first in
its lowest bits. So a product with codes is a sum of products with planes, times 1, 4 or 16.
"""

from __future__ import annotations

import torch
from torch import Tensor

PLANES: dict[int, tuple[int, ...]] = {8: (8,), 6: (4, 2), 4: (4,), 3: (2, 1), 2: (2,)}
"""Bits of the planes by bits of a code, the plane of the lowest bits first."""


def packed_bytes(bits: int, outputs: int) -> int:
    return sum(-(-outputs * plane // 8) for plane in PLANES[bits])


def pack(codes: Tensor, bits: int) -> Tensor:
    """Pack codes [n, m] of 0 to 2^bits - 1 into uint8 [n, packed_bytes(bits, m)]."""
    rest, planes = codes.to(torch.uint8).contiguous(), []
    for plane in PLANES[bits]:
        codes_per_byte = 8 // plane
        values = torch.nn.functional.pad(rest & ((1 << plane) - 1), (0, -codes.shape[1] % codes_per_byte))
        packed = values[:, ::codes_per_byte].clone()
        for slot in range(1, codes_per_byte):
            packed |= values[:, slot::codes_per_byte] << (plane * slot)
        planes.append(packed)
        rest = rest >> plane if plane < 8 else rest
    return torch.cat(planes, dim=1).contiguous()


def unpack(packed: Tensor, bits: int, outputs: int) -> Tensor:
    """Return the codes, uint8 [n, outputs], of what `pack` returned."""
    codes, start, shift = None, 0, 0
    for plane in PLANES[bits]:
        codes_per_byte, width = 8 // plane, -(-outputs * plane // 8)
        plane_bytes = packed[:, start : start + width]
        values = torch.stack(
            [(plane_bytes >> (plane * slot)) & ((1 << plane) - 1) for slot in range(codes_per_byte)], dim=-1
        )
        values = values.flatten(1)[:, :outputs] << shift
        codes = values if codes is None else codes | values
        start, shift = start + width, shift + plane
    assert codes is not None
    return codes
