"""Registers and shared memory of the targets, and the warps that fit on a multiprocessor."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of a target, from the vendors' tables of compute capabilities and architectures."""

    lanes: int
    """Threads of a warp."""
    registers: int
    """Of a thread, 32 bits each."""
    register_file: int
    """Registers of a multiprocessor."""
    shared_bytes: int
    """Of a program and, within 1 KiB for each, of a multiprocessor."""
    warps: int
    """Of a multiprocessor."""


LIMITS = {
    "sm_80": Limits(lanes=32, registers=255, register_file=65536, shared_bytes=163 * 1024, warps=64),
    "sm_90": Limits(lanes=32, registers=255, register_file=65536, shared_bytes=227 * 1024, warps=64),
    "sm_100": Limits(lanes=32, registers=255, register_file=65536, shared_bytes=227 * 1024, warps=64),
    "sm_120": Limits(lanes=32, registers=255, register_file=65536, shared_bytes=99 * 1024, warps=48),
    "gfx942": Limits(lanes=64, registers=512, register_file=4 * 512 * 64, shared_bytes=64 * 1024, warps=32),
}
_GRANULE = 8
"""Registers of a thread are handed out in multiples."""
_RESERVED = 1024
"""Bytes of shared memory that the system takes for each program, on NVIDIA's."""


def resident_warps(limits: Limits, registers: int, shared_bytes: int, warps: int) -> int:
    """Return the warps on a multiprocessor when programs of `warps` fill it; 0 if not even one program fits."""
    if registers > limits.registers or shared_bytes > limits.shared_bytes:
        return 0
    of_a_program = -(-registers // _GRANULE) * _GRANULE * limits.lanes * warps
    by_shared = (limits.shared_bytes + _RESERVED) // (shared_bytes + _RESERVED)
    return warps * min(limits.register_file // of_a_program, by_shared, limits.warps // warps)
