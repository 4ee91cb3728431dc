"""Completions token by token, and the statistics of their passes."""

import math
import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

from wina_core.records.base import Record
from wina_core.records.timings import Environment
from wina_core.specs.generation import CompletionPoint

LEAST_TOKENS = 16
"""Tokens from which a speed-up is stated: the median of fewer passes is noise."""
RATE_DIGITS = 4
"""Significant digits of a rate."""

CompletionEnd = Literal["end", "length", "stopped"]
"""End of a completion: at an end token, at its maximum length, or because it was stopped."""


class CompletionToken(Record):
    """One token of a completion. Probabilities are the models' own, before temperature and top-p."""

    id: int
    text: str
    """Its text in the completion (`compute.generation.reader`); empty for a token that ends within a character."""
    log_probability: float | None
    """Natural logarithm of its probability by the model that chose it; None for a token of the prefix."""
    dense_log_probability: float | None = None
    """The same by the dense model after the same prefix; None for the dense completion."""
    divergence: float | None = None
    """KL(dense || gated) in nats of the two next-token distributions; None for the dense completion.

    The dense model reads the prompt and the gated completion so far, on the same weights with the gates switched off,
    or on the unrotated weights where the rotation needs shortcuts.
    """
    read: int
    """Tokens read by its forward pass: the prompt and the prefix for the first token, else 1; 0 in the prefix."""
    seconds: float
    """Duration of this pass, from the tokens to the logits."""
    dense_seconds: float | None = None
    """Duration of the dense pass right after it; None for the dense completion."""


class DecodingSpeed(NamedTuple):
    """Tokens per second of decoding, without the prompt. A speed-up is the ratio of the two rates as they are here."""

    rate: float | None
    """Of the model that chose the tokens; None before it has decoded one."""
    dense_rate: float | None
    """Of the dense model over the same text, its passes in turn with the others; None for the dense completion."""
    speedup: float | None
    """None below LEAST_TOKENS, and for the dense completion."""


def decoding_speed(tokens: Sequence[CompletionToken]) -> DecodingSpeed:
    """Return the rates by the median times of the passes that read one token each, and their ratio.

    Rates are rounded to RATE_DIGITS before they are divided, so that a reader who divides them finds the speed-up.
    """
    # The first pass reads the prompt, even a prompt of one token.
    passes = [token for token in tokens[1:] if token.read == 1]
    rate = _rate([token.seconds for token in passes])
    dense = _rate([token.dense_seconds for token in passes if token.dense_seconds is not None])
    enough = len(passes) + 1 >= LEAST_TOKENS
    return DecodingSpeed(rate, dense, rate / dense if enough and rate is not None and dense else None)


def _rate(seconds: Sequence[float]) -> float | None:
    median = statistics.median(seconds) if seconds else 0.0
    return float(f"{1 / median:.{RATE_DIGITS}g}") if median > 0 else None


def rate_text(rate: float) -> str:
    return f"{rate:,.{max(0, RATE_DIGITS - 1 - math.floor(math.log10(rate)))}f}"


def prefill(tokens: Sequence[CompletionToken]) -> tuple[int, float] | None:
    """Return the tokens of the prompt and the seconds of reading them; None without such a pass."""
    return (tokens[0].read, tokens[0].seconds) if tokens and tokens[0].read else None


def mean_divergence(tokens: Sequence[CompletionToken]) -> float | None:
    """Return the mean `CompletionToken.divergence` in nats; None for the dense completion."""
    values = [token.divergence for token in tokens if token.divergence is not None]
    return statistics.fmean(values) if values else None


def joined_text(tokens: Sequence[CompletionToken]) -> str:
    return "".join(token.text for token in tokens)


class CompletionRecord(Record):
    """A completion that has ended."""

    point: CompletionPoint
    """Without a prefix: `tokens` begin with it."""
    environment: Environment | None
    end: CompletionEnd
    prompt_tokens: int
    sparsity: float | None
    """Dropped fraction of the plan's weights (`CompletionFinished.sparsity`)."""
    tokens: tuple[CompletionToken, ...]


class CompletionRow(NamedTuple):
    """One stored completion, without its text."""

    id: int
    model: str
    """The model's short name."""
    prompt: str
    """Its beginning."""
    configuration: str
    """`CompletionSpec.label`."""
    method: str
    tokens: int
    end: str
    sparsity: float | None
    first_token_seconds: float | None
    tokens_per_second: float | None
    dense_tokens_per_second: float | None
    speedup: float | None
    divergence: float | None
    recorded: float
    hardware: str | None


class StoredCompletion(NamedTuple):
    """One stored completion beside the dense one of its prompt."""

    id: int
    record: CompletionRecord
    recorded: float
    dense: CompletionRecord | None
    """None where there is none, and for a dense one."""
