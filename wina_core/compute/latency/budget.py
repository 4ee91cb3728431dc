"""Time budgets of decoding: the repetitions and new tokens of a point that fit, and the time that a sweep takes.

Progress shows the remaining time of all points. The memory of a timed model is what its weights hold, and its peak.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple, Self

import torch
from torch import nn

from wina_core.compute import pausable_clock
from wina_core.compute.gating import Gates
from wina_core.compute.reporter import Reporter
from wina_core.jobs import Emit, Progress
from wina_core.specs.latency import LEAST_REPETITIONS, LEAST_TOKENS, DecodePoint

DENSE_SHARE = 0.45
"""Share of a point's budget for the dense model; the gated one has the rest, in which its weights are transposed."""
_GATED_PER_DENSE = 1.2
"""Guess of the gated model's time over the dense one's, its transposing included, until a point has ended."""
_PATIENCE = 1.2
"""Times its share of the budget after which a repetition ends early: machines slow down by more while others work."""
_TOKENS_OF_A_PASS = 16
"""Tokens of a prompt that take about as long as one decoded token, which reads all weights."""


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


def passes(point: DecodePoint) -> float:
    return point.new_tokens + point.prompt_tokens * point.batch / _TOKENS_OF_A_PASS


class Finished(NamedTuple):
    """A timed point and its seconds."""

    point: DecodePoint
    seconds: float
    dense_seconds: float


def expected_seconds(point: DecodePoint, finished: Sequence[Finished]) -> float | None:
    """Return the time that a point will take: that of the last point of its batch, or the last one's in proportion to
    its work, or its budget; None without any of these."""
    same = [timed for timed in finished if timed.point.batch == point.batch]
    if same:
        return same[-1].seconds
    budget = point.budget_seconds
    if not finished:
        return budget
    last = finished[-1]
    scaled = last.seconds * passes(point) / passes(last.point)
    return scaled if budget is None else min(scaled, max(budget, last.seconds))


def expected_rest(dense_seconds: float, point: DecodePoint, finished: Sequence[Finished]) -> float:
    """Return the time of the gated model of a point whose dense one takes `dense_seconds`: in proportion to that, and
    within its share of the budget unless the last one needed more."""
    if not finished:
        rest, needed = _GATED_PER_DENSE * dense_seconds, 0.0
    else:
        last = finished[-1]
        needed = last.seconds - last.dense_seconds
        rest = needed / last.dense_seconds * dense_seconds
    if point.budget_seconds is None:
        return rest
    return min(rest, max((1.0 - DENSE_SHARE) * point.budget_seconds, needed))


TimedModel = Literal["dense", "gated"]


class SweepProgress:
    """Sender of a sweep's progress: points, the current one in proportion to its time, and the time left of all.

    The sweep estimates itself, since it alone knows its budgets: a rate of points per second would not know that a
    repetition is left out.
    """

    def __init__(self, reporter: Reporter, emit: Emit, job_id: str, points: Sequence[DecodePoint]) -> None:
        self._reporter, self._emit, self._job_id = reporter, emit, job_id
        self._points = points
        self._finished: list[Finished] = []
        self._model: TimedModel = "dense"
        self._model_left: float | None = None
        self._dense_seconds = 0.0
        self._started = pausable_clock.now()
        self._done = 0.0

    @property
    def _point(self) -> DecodePoint:
        return self._points[len(self._finished)]

    @property
    def elapsed(self) -> float:
        """Seconds since the current point began, without pauses."""
        return pausable_clock.now() - self._started

    def begin(self, model: TimedModel) -> None:
        if model == "dense":
            self._started = pausable_clock.now()
        else:
            self._dense_seconds = self.elapsed
        self._model, self._model_left = model, None
        self._send("warm-up")

    def expect(self, seconds: float, text: str) -> None:
        """Send progress with the remaining seconds of the current model."""
        self._model_left = seconds
        self._send(text)

    def check(self) -> None:
        """Raise Cancelled after a cancellation."""
        self._reporter.check()

    def finish(self) -> None:
        self._finished.append(Finished(self._point, self.elapsed, self._dense_seconds))
        self._done = float(len(self._finished))
        # `_send` leaves each point below 1, so the whole is sent here.
        if self._done == len(self._points):
            self._emit(Progress(job_id=self._job_id, done=self._done, total=self._done, unit="points", eta_seconds=0.0))

    def _send(self, text: str) -> None:
        point, total = self._point, len(self._points)
        label = f"{point.label}: {self._model}, {text}"
        point_left = self._point_left()
        if point_left is not None:
            share = self.elapsed / (self.elapsed + point_left) if point_left > 0.0 else 1.0
            # Progress never falls, and counts a point in full only once it is finished.
            self._done = max(self._done, len(self._finished) + min(share, 0.999))
        self._emit(
            Progress(
                job_id=self._job_id,
                done=self._done,
                total=total,
                unit="points",
                eta_seconds=self._left(point_left),
                metric=label,
            )
        )

    def _left(self, point_left: float | None) -> float | None:
        """Return the remaining seconds of the current point, `point_left`, and of all later ones together."""
        if point_left is None:
            return None
        finished = [*self._finished, Finished(self._point, self.elapsed + point_left, 0.0)]
        later = [expected_seconds(point, finished) or 0.0 for point in self._points[len(finished) :]]
        return point_left + sum(later)

    def _point_left(self) -> float | None:
        """Return the remaining seconds of the current point; None before anything was timed."""
        if self._model == "gated" and self._model_left is not None:
            return self._model_left
        if self._model == "dense" and self._model_left is not None:
            dense = self.elapsed + self._model_left
            return self._model_left + expected_rest(dense, self._point, self._finished)
        if self._model == "gated":
            rest = expected_rest(self._dense_seconds, self._point, self._finished)
            return max(0.0, rest - (self.elapsed - self._dense_seconds))
        return expected_seconds(self._point, self._finished)


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
