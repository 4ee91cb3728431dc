"""Next-token distributions of one growing sequence."""

import time
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache

from wina_core.compute.gating import Gates
from wina_core.compute.generation.compiled import CompiledModel, CompiledSequence
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import log_probabilities
from wina_core.errors import WinaError


class Reader:
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
        """Read on and return log probabilities [vocabulary] of the next token, float32 at least; raise WinaError if the
        model's logits are not numbers."""
        if self._gates is not None:
            self._gates.enabled = self._gated
        if self._compiled is not None and self._sequence is None and self._cache.get_seq_length() > 0:
            self._sequence = self._compiled.begin(self._cache)
        start = time.perf_counter()
        logits = self._logits(ids)
        if logits.is_cuda:
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
