"""A completion as its tokens arrive, with its statistics."""

import statistics
from dataclasses import dataclass, field

from wina_core.engine.protocol import CompletionFinished, Token
from wina_core.specs.generation import CompletionSpec


@dataclass
class Completion:
    """One configuration's tokens in their order, and its end; None while it grows."""

    spec: CompletionSpec
    tokens: list[Token] = field(default_factory=list)
    ended: CompletionFinished | None = None

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(token.text for token in self.tokens)

    @property
    def ids(self) -> tuple[int, ...]:
        """The token ids."""
        return tuple(token.id for token in self.tokens)

    @property
    def prefill(self) -> tuple[int, float] | None:
        """Tokens of the prompt and the seconds of reading them; None before the first token."""
        return (self.tokens[0].read, self.tokens[0].seconds) if self.tokens else None

    @property
    def tokens_per_second(self) -> float | None:
        """Decoding speed by the median over the passes that read one token each; None before there is one."""
        seconds = [token.seconds for token in self.tokens[1:] if token.read == 1]
        return 1 / statistics.median(seconds) if seconds else None

    @property
    def speedup(self) -> float | None:
        """Ratio of the median times of dense and gated passes, which took turns over the same prefix; None before there
        is one, and for the dense completion."""
        passes = [token for token in self.tokens[1:] if token.read == 1]
        dense = [token.dense_seconds for token in passes if token.dense_seconds is not None]
        return statistics.median(dense) / statistics.median(token.seconds for token in passes) if dense else None

    @property
    def divergence(self) -> float | None:
        """Mean `Token.divergence` in nats; None for the dense completion."""
        values = [token.divergence for token in self.tokens if token.divergence is not None]
        return statistics.fmean(values) if values else None

    @property
    def is_whole(self) -> bool:
        """True if it ended by itself or at its maximum length."""
        return self.ended is not None and self.ended.end != "stopped"


def first_difference(one: Completion, other: Completion) -> int | None:
    """Return the first position at which two completions differ, or at which one of them alone has ended; None while
    they agree."""
    for at, (a, b) in enumerate(zip(one.tokens, other.tokens, strict=False)):
        if a.id != b.id:
            return at
    shorter, longer = sorted((one, other), key=lambda completion: len(completion.tokens))
    common = len(shorter.tokens)
    return common if shorter.is_whole and len(longer.tokens) > common else None
