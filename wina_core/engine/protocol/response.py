"""An answer as its tokens arrive, and what they add up to. Light: the window and the command line read it."""

import statistics
from dataclasses import dataclass, field

from wina_core.engine.protocol import Answered, Token
from wina_core.specs.generation import AnswerSpec


@dataclass
class Answer:
    """One arm's tokens in their order, and how it ended; None while it grows."""

    spec: AnswerSpec
    tokens: list[Token] = field(default_factory=list)
    ended: Answered | None = None

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(token.text for token in self.tokens)

    @property
    def ids(self) -> tuple[int, ...]:
        """Its token ids."""
        return tuple(token.id for token in self.tokens)

    @property
    def prefill(self) -> tuple[int, float] | None:
        """Tokens of the prompt, and the seconds in which they were read; None before the first token."""
        return (self.tokens[0].read, self.tokens[0].seconds) if self.tokens else None

    @property
    def tokens_per_second(self) -> float | None:
        """Of decoding: by the median over the passes that read one token each; None before there is one."""
        seconds = [token.seconds for token in self.tokens[1:] if token.read == 1]
        return 1 / statistics.median(seconds) if seconds else None

    @property
    def speedup(self) -> float | None:
        """Of a gated answer's passes against the dense model's over the same prefix, which took turns with them: the
        quotient of the medians; None before there is one, and for the dense answer."""
        passes = [token for token in self.tokens[1:] if token.read == 1]
        dense = [token.dense_seconds for token in passes if token.dense_seconds is not None]
        return statistics.median(dense) / statistics.median(token.seconds for token in passes) if dense else None

    @property
    def divergence(self) -> float | None:
        """Mean over its tokens of `Token.divergence`, in nats; None for the dense answer."""
        values = [token.divergence for token in self.tokens if token.divergence is not None]
        return statistics.fmean(values) if values else None

    @property
    def is_whole(self) -> bool:
        """Whether it ended by itself or at its length, so that nothing is to come."""
        return self.ended is not None and self.ended.end != "stopped"


def first_difference(one: Answer, other: Answer) -> int | None:
    """The first position at which two answers have different tokens, or where one of them alone has ended; None while
    they agree."""
    for at, (a, b) in enumerate(zip(one.tokens, other.tokens, strict=False)):
        if a.id != b.id:
            return at
    shorter, longer = sorted((one, other), key=lambda answer: len(answer.tokens))
    common = len(shorter.tokens)
    return common if shorter.is_whole and len(longer.tokens) > common else None
