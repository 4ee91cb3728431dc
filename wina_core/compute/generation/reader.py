"""Generation token by token: next-token distributions of one growing sequence, sampling, and decoding to text.

The noise of sampling depends on the position and not on the model. Decoding never shows half a character.
"""

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from wina_core.compute.gating import Gates
from wina_core.compute.generation.compiled import CompiledModel, CompiledSequence
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import log_probabilities
from wina_core.errors import WinaError
from wina_core.specs.generation import SamplingSpec


class SequenceReader:
    """Reader of one sequence, piece by piece, through its own cache; several may take turns on one model.

    Each sets the model's gates as it needs them: `gated` or dense. The first piece passes through torch; later tokens
    through the compiled model, if there is one.
    """

    def __init__(
        self, loaded: LoadedModel, gates: Gates | None, *, gated: bool, compiled: CompiledModel | None = None
    ) -> None:
        self._loaded = loaded
        self._gates = gates
        self._gated = gated
        self._compiled = compiled
        self._cache = DynamicCache(config=loaded.model.config)
        self._sequence: CompiledSequence | None = None
        self.seconds = 0.0
        """Seconds of the last forward pass alone."""

    @torch.no_grad()
    def read(self, ids: Sequence[int]) -> Tensor:
        """Read further tokens and return log probabilities [vocabulary] of the next one, float32 at least.

        Raises WinaError if the model's logits are not numbers.
        """
        if self._gates is not None:
            self._gates.enabled = self._gated  # another reader of the same model may have set it otherwise
        if self._compiled is not None and self._sequence is None and self._cache.get_seq_length() > 0:
            self._sequence = self._compiled.begin(self._cache)
        start = time.perf_counter()
        logits = self._logits(ids)
        if logits.is_cuda:  # the device may still be at work when the call returns
            torch.cuda.synchronize(logits.device)
        self.seconds = time.perf_counter() - start
        if not logits.max() < torch.inf:  # false for NaN too
            side = "lower the sparsity, or " if self._gated else ""
            raise WinaError(
                f"The {'gated' if self._gated else 'dense'} model's logits are not numbers after "
                f"{self._length} tokens; {side}open the model in bfloat16 or float32 instead."
            )
        return log_probabilities(logits)

    def _logits(self, ids: Sequence[int]) -> Tensor:
        if self._sequence is not None:
            for token in ids:
                logits = self._sequence.read(token, gated=self._gated)
            return logits
        tokens = torch.tensor([ids], device=self._loaded.device)
        return self._loaded.model(tokens, past_key_values=self._cache, use_cache=True, logits_to_keep=1).logits[0, -1]

    @property
    def _length(self) -> int:
        return self._cache.get_seq_length() if self._sequence is None else self._sequence.length


_POSITIONS = 2**20
"""Positions of one seed; longer than any context."""


def choose(log_probabilities: Tensor, sampling: SamplingSpec, position: int) -> int:
    """Return the next token's id, from log probabilities [vocabulary].

    Gumbel-max sampling: argmax_i(log p_i / T + g_i) has the distribution softmax(log p / T). The noise g comes from the
    seed and the position, so models that agree on a distribution choose the same token.
    """
    if sampling.temperature == 0.0:
        return int(log_probabilities.argmax())
    # On the CPU, so that a seed draws the same noise for models on any device.
    tempered = (log_probabilities.to("cpu", torch.float64) / sampling.temperature).log_softmax(-1)
    generator = torch.Generator().manual_seed(sampling.seed * _POSITIONS + position)
    uniform = torch.rand(len(tempered), generator=generator, dtype=torch.float64)
    gumbel = -(-uniform.clamp_min(torch.finfo(torch.float64).tiny).log()).log()
    return int((_nucleus(tempered, sampling.top_p) + gumbel).argmax())


def _nucleus(log_probabilities: Tensor, top_p: float) -> Tensor:
    """Set log probabilities outside the smallest set of tokens with mass `top_p` to -inf."""
    if top_p == 1.0:
        return log_probabilities
    ordered, order = log_probabilities.sort(descending=True, stable=True)
    before = ordered.exp().cumsum(-1) - ordered.exp()  # the mass before a token, so that the first one always stays
    return log_probabilities.index_fill(-1, order[before >= top_p], -torch.inf)


_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
_MAX_CHARACTER_TOKENS = 4
"""Most tokens of one UTF-8 character."""


class Pieces:
    """The text that each token adds. A token that ends within a character adds nothing; the one that completes it adds
    all of it. A special token appears as its name.

    The text of a token depends on earlier ones (spaces, bytes of one character), so a few of them are decoded with it.
    """

    def __init__(self, tokenizer: Any, before: Sequence[int] = ()) -> None:
        """Start after the tokens `before`, whose text is already shown."""
        self._tokenizer = tokenizer
        self._special = frozenset(tokenizer.all_special_ids)
        self._ids: list[int] = []
        self._from = self._decoded = 0
        for token in before:
            self.add(token)

    def add(self, token: int) -> str:
        """Return the text that the next token adds."""
        if token in self._special:
            self._ids, self._from, self._decoded = [], 0, 0
            return str(self._tokenizer.convert_ids_to_tokens(token))
        self._ids.append(token)
        before = self._decode(self._ids[self._from : self._decoded])
        text = self._decode(self._ids[self._from :])
        if text.endswith(_UNFINISHED) and len(self._ids) - self._decoded < _MAX_CHARACTER_TOKENS:
            return ""
        self._from, self._decoded = self._decoded, len(self._ids)
        return text[len(before) :]

    def _decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, clean_up_tokenization_spaces=False))
