"""The device that the GPU's benchmark measures."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Machine:
    """A device and the numbers that the measurements of all parts need."""

    device: torch.device
    cache_bytes: int
    """Size of the last-level cache."""
    copy: float | None = None
    """Bandwidth of a copy in GB/s (1e9 bytes), where it is known."""
