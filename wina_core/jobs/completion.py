"""A completion as its tokens arrive, with its statistics."""

from dataclasses import dataclass, field

from wina_core.jobs import CompletionFinished
from wina_core.records.completions import (
    CompletionRecord,
    CompletionToken,
    DecodingSpeed,
    decoding_speed,
    joined_text,
    mean_divergence,
    prefill,
)
from wina_core.specs.generation import CompletionSpec


@dataclass
class Completion:
    """One configuration's tokens in their order, and its end; None while it grows."""

    spec: CompletionSpec
    tokens: list[CompletionToken] = field(default_factory=list)
    ended: CompletionFinished | None = None

    @property
    def text(self) -> str:
        return joined_text(self.tokens)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(token.id for token in self.tokens)

    @property
    def prefill(self) -> tuple[int, float] | None:
        """Tokens of the prompt and the seconds of reading them; None before the first token."""
        return prefill(self.tokens)

    @property
    def speed(self) -> DecodingSpeed:
        return decoding_speed(self.tokens)

    @property
    def divergence(self) -> float | None:
        """Mean divergence in nats; None for the dense completion."""
        return mean_divergence(self.tokens)

    @property
    def is_whole(self) -> bool:
        return self.ended is not None and self.ended.end != "stopped"


def completion_of(record: CompletionRecord) -> Completion:
    ended = CompletionFinished(
        job_id="", configuration=0, end=record.end, prompt_tokens=record.prompt_tokens, sparsity=record.sparsity
    )
    return Completion(record.point.configuration, list(record.tokens), ended)


def first_difference(one: Completion, other: Completion) -> int | None:
    """Return the first position at which two completions differ, or at which one of them alone has ended; None while
    they agree."""
    for at, (a, b) in enumerate(zip(one.tokens, other.tokens, strict=False)):
        if a.id != b.id:
            return at
    shorter, longer = sorted((one, other), key=lambda completion: len(completion.tokens))
    common = len(shorter.tokens)
    return common if shorter.is_whole and len(longer.tokens) > common else None
