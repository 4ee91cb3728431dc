"""Time budgets of decoding: the repetitions and new tokens of a point that fit, and the memory of a timed model.

That is what its weights hold, and its peak.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import torch
from torch import nn

from wina_core.compute import pausable_clock
from wina_core.compute.gating import Gates
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


class Repetitions:
    """The repetitions of one model at a point: as many, and with as many new tokens, as its budget allows.

    Args:
        point: The point.
        end: The time, by pausable_clock, when its budget has passed, the warm-up included; infinite without one.
        tokens: New tokens of a repetition; None to choose them by the warm-up.
        check: Raises Cancelled after a cancellation.
        report: Gets the fraction of the repetitions that is done, and the next one's name.
    """

    def __init__(
        self,
        point: DecodePoint,
        end: float,
        tokens: int | None,
        check: Callable[[], object],
        report: Callable[[float, str], object],
    ) -> None:
        self.check = check
        self._point, self._end, self._tokens, self._report = point, end, tokens, report
        self._deadline = float("inf")

    def is_over(self, tokens: int) -> bool:
        """Return whether the current repetition is past its deadline and has made LEAST_TOKENS."""
        return tokens >= LEAST_TOKENS and pausable_clock.now() > self._deadline

    def timed(self, repeat: Callable[[int], Repetition]) -> list[Repetition]:
        """Return the repetitions after a warm-up; `repeat` makes one of at most so many new tokens."""
        point, repetitions = self._point, list[Repetition]()
        self._report(0.0, "warm-up")
        # Few tokens under a budget, whose time is for the repetitions.
        warm_up = repeat(point.new_tokens if point.budget_seconds is None else min(point.new_tokens, LEAST_TOKENS))
        prompt = warm_up.first - warm_up.start
        token = (warm_up.end - warm_up.first) / (warm_up.tokens - 1)
        begun = now = pausable_clock.now()
        tokens = self._tokens or fitting_tokens(self._end - now, prompt, token, point)
        duration = prompt + (tokens - 1) * token
        while repetitions_left(done := len(repetitions), duration, self._end - now, point):
            self._report(done / point.repetitions, f"repetition {done + 1} of {point.repetitions}")
            self._deadline = now + longest_repetition(done, self._end - now, point)
            repetitions.append(repeat(tokens))
            now = pausable_clock.now()
            duration = (now - begun) / len(repetitions)
        return repetitions


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
