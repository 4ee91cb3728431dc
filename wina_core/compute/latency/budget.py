"""Time budgets of decoding: the repetitions and new tokens of a point that fit, and the time that a sweep takes."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from wina_core.specs.latency import LEAST_REPETITIONS, LEAST_TOKENS, DecodePoint

DENSE_SHARE = 0.45
"""Share of a point's budget for the dense model; the gated one has the rest, in which its weights are transposed."""
_GATED_PER_DENSE = 1.2
"""Guess of the gated model's time over the dense one's, its transposing included, until a point has ended."""
_PATIENCE = 1.2
"""Times its share of the budget after which a repetition ends early: machines slow down by more while others work."""
_TOKENS_OF_A_PASS = 16
"""Tokens of a prompt that take about as long as a decoded one, of which each reads all weights."""


class Repetition(NamedTuple):
    """The times of one repetition, and its new tokens."""

    start: float
    first: float
    end: float
    tokens: int


Repeat = Callable[[int], Repetition]
"""At most so many new tokens -> one repetition."""


class Allowance(NamedTuple):
    """The time that one model's repetitions of a point may take."""

    seconds: float
    """From `started`, the warm-up included."""
    started: float
    tokens: int | None = None
    """New tokens of a repetition; None to choose them by the warm-up."""


def warm_up_tokens(point: DecodePoint) -> int:
    """Return the new tokens of the warm-up: few under a budget, for its time is the repetitions'."""
    return point.new_tokens if point.budget_seconds is None else min(point.new_tokens, LEAST_TOKENS)


def least_repetitions(point: DecodePoint) -> int:
    """Return the repetitions that are timed whatever the budget."""
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


def repetitions_left(done: int, each: float, left: float, point: DecodePoint) -> int:
    """Return the repetitions to come after `done`, if each takes `each` seconds and `left` remain of the budget."""
    wanted = point.repetitions - done
    fitting = int(min(max(0.0, left) / each, wanted))
    return max(0, min(wanted, max(fitting, least_repetitions(point) - done)))


def passes(point: DecodePoint) -> float:
    """Return the work of a repetition in passes over the weights."""
    return point.new_tokens + point.prompt_tokens * point.batch / _TOKENS_OF_A_PASS


class Finished(NamedTuple):
    """A timed point and its seconds."""

    point: DecodePoint
    seconds: float
    dense_seconds: float


def expected_seconds(point: DecodePoint, finished: Sequence[Finished]) -> float | None:
    """Return the time that a point will take: as the last one of its batch, in proportion to its work to that of
    others, or its budget; None if none of them is known."""
    same = [each for each in finished if each.point.batch == point.batch]
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
