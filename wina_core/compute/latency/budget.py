"""Time budgets of decoding: the repetitions and new tokens of a point that fit, and a sweep's progress.

The memory of a timed model is what its weights hold, and its peak.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple, Self

import torch
from torch import nn

from wina_core.compute.gating import Gates
from wina_core.compute.reporter import Reporter
from wina_core.specs.latency import LEAST_REPETITIONS, LEAST_TOKENS, DecodePoint

DENSE_SHARE = 0.45
"""Share of a point's budget for the dense model; the gated one has the rest, in which its weights are transposed."""
_PATIENCE = 1.2
"""Times its share of the budget after which a repetition ends early: machines slow down by more while others work."""


class Repetition(NamedTuple):
    """The times of one repetition, and its new tokens."""

    start: float
    first: float
    end: float
    tokens: int


Repeat = Callable[[int], Repetition]
"""Largest number of new tokens -> one repetition."""


class Allowance(NamedTuple):
    """The time that one model's repetitions of a point may take."""

    seconds: float
    """From `started`, the warm-up included."""
    started: float
    tokens: int | None = None
    """New tokens of a repetition; None to choose them by the warm-up."""


def warm_up_tokens(point: DecodePoint) -> int:
    # Few under a budget, whose time is for the repetitions.
    return point.new_tokens if point.budget_seconds is None else min(point.new_tokens, LEAST_TOKENS)


def least_repetitions(point: DecodePoint) -> int:
    return min(point.repetitions, LEAST_REPETITIONS)


def fitting_tokens(seconds: float, prompt: float, token: float, point: DecodePoint) -> int:
    """Return the new tokens with which the least repetitions take at most `seconds`, within the point's limits.

    `prompt` and `token` are the seconds of a repetition's prompt and first token, and of each later token.
    """
    fitting = 1 + (seconds / least_repetitions(point) - prompt) / token
    return int(min(max(fitting, LEAST_TOKENS), point.new_tokens))


def longest_repetition(done: int, left: float, point: DecodePoint) -> float:
    """Return the seconds after which the next repetition after `done` ends early, with `left` of the budget."""
    return _PATIENCE * max(0.0, left) / max(1, least_repetitions(point) - done)


def repetitions_left(done: int, duration: float, left: float, point: DecodePoint) -> int:
    """Return the repetitions to come after `done`, if each takes `duration` seconds and `left` remain of the budget."""
    remaining = point.repetitions - done
    fitting = int(min(max(0.0, left) / duration, remaining))
    return max(0, min(remaining, max(fitting, least_repetitions(point) - done)))


TimedModel = Literal["dense", "gated"]


class SweepProgress:
    """A sweep's progress: points, the current one in proportion to the budget's shares and the repetitions."""

    def __init__(self, reporter: Reporter, points: Sequence[DecodePoint]) -> None:
        self._reporter = reporter
        self._points = points
        self._finished = 0
        self._model: TimedModel = "dense"
        self._done = 0.0
        reporter.stage("")

    def begin(self, model: TimedModel) -> None:
        """Begin the repetitions of a model of the current point."""
        self._model = model
        self.send(0.0, "warm-up")

    def send(self, share: float, text: str) -> None:
        """Report the share of the current model's time that has passed."""
        point, total = self._points[self._finished], len(self._points)
        if self._model == "dense":
            share *= DENSE_SHARE
        else:
            share = DENSE_SHARE + (1.0 - DENSE_SHARE) * share
        # Progress never falls, though a repetition may be added or left out.
        self._done = max(self._done, self._finished + share)
        self._reporter.progress(self._done, total, "points", f"{point.label}: {self._model}, {text}")

    def check(self) -> None:
        """Raise Cancelled after a cancellation."""
        self._reporter.check()

    def finish(self) -> None:
        self._finished += 1
        if self._finished == len(self._points):
            self._reporter.progress(self._finished, self._finished, "points")


_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def held_bytes(model: nn.Module, gates: Gates | None = None) -> int:
    """Return the bytes of a model's parameters and buffers and of its gates' norms, centres and low-rank parts.

    A tensor that several share, such as a tied embedding, counts once.
    """
    tensors = (*model.parameters(), *model.buffers(), *(() if gates is None else gates.held))
    return sum({(tensor.data_ptr(), tensor.shape): tensor.nbytes for tensor in tensors if tensor.numel()}.values())


class PeakMemory:
    """The largest memory of a block: PyTorch's on a GPU, else the resident memory of the process.

    `bytes` is None where the system cannot reset its own count: all but Linux, and containers that forbid it.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.bytes: int | None = None
        self._is_reset = False

    def __enter__(self) -> Self:
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        elif sys.platform == "linux":
            with suppress(OSError):
                _RESET.write_text("5")  # proc(5): resets the peak resident set size
                self._is_reset = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._device.type == "cuda":
            self.bytes = torch.cuda.max_memory_allocated(self._device)
        elif self._is_reset:
            line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
            self.bytes = 1024 * int(line.split()[1])
