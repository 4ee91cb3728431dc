"""Memory of a timed model: bytes held by its weights, and the peak while it runs."""

import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import torch
from torch import nn

from wina_core.compute.gating import Gates

_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def held_bytes(model: nn.Module, gates: Gates | None = None) -> int:
    """Return the bytes of a model's parameters and buffers and of its gates' norms, centres and low-rank parts.

    A tensor that several share, such as a tied embedding, counts once.
    """
    tensors = (*model.parameters(), *model.buffers(), *(() if gates is None else gates.held))
    distinct = {(each.data_ptr(), each.shape): each.numel() * each.element_size() for each in tensors if each.numel()}
    return sum(distinct.values())


class PeakMemory:
    """The largest memory of a block: PyTorch's on a GPU, else the resident memory of the process.

    `bytes` is None where the system cannot reset its own count (all but Linux).
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.bytes: int | None = None

    def __enter__(self) -> Self:
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        elif sys.platform == "linux":
            _RESET.write_text("5")  # proc(5): resets the peak resident set size
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._device.type == "cuda":
            self.bytes = torch.cuda.max_memory_allocated(self._device)
        elif sys.platform == "linux":
            line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
            self.bytes = 1024 * int(line.split()[1])
