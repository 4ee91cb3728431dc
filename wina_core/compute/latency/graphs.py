"""Greedy decoding into a cache of fixed size, with its step captured in a CUDA graph.

A step of a large model has hundreds of launches, each shorter than the processor takes to issue it. As one graph they
follow without gaps, so the measurement is the device's time. Elsewhere the step runs plainly and gives the same tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, StaticLayer

from wina_core.compute import pausable_clock
from wina_core.compute.generation.fused import FusedModel, FusedStep
from wina_core.compute.models.experts import Experts
from wina_core.errors import WinaError

_WARM_UP = 3
"""Steps before the capture, in which kernels are compiled and chosen and libraries allocate."""
_READS_POSITIONS = ("opt",)
"""Model types whose step reads the position back from the device, which a graph cannot do."""
_MULTIPLE = 8
"""Divisor of the cache's length: attention kernels copy masks with other alignments."""


Times = tuple[float, float, float]
"""Seconds at the start, at the first new token and at the last."""


def can_be_captured(model: Any) -> bool:
    """Return whether the model is on CUDA and its step reads nothing back from the device, as a choice of experts
    does."""
    if model.device.type != "cuda" or model.config.model_type in _READS_POSITIONS:
        return False
    return not any(isinstance(module, Experts) for module in model.modules())


class GraphDecoder:
    """Decoder of `batch` sequences at a time, each of at most `capacity` tokens.

    Weights and gates must stay in place: a graph keeps the addresses it was captured with. Warm-up tokens pass the
    gates and are counted.
    """

    def __init__(self, model: Any, capacity: int, batch: int = 1, fused: FusedModel | None = None) -> None:
        """Decode by the model's own step, or by its fused one, which takes one sequence alone."""
        self._model = model
        self._fused = fused
        self._step: FusedStep | None = None
        # The capture itself writes the first token and those of the warm-up.
        self._capacity = max(capacity, 1 + _WARM_UP)
        # Full length for every layer, sliding windows too: those are in the mask, which is made of the position on the
        # device, whereas transformers' caches of a window's length choose what to do by a number in Python.
        length = -(-self._capacity // _MULTIPLE) * _MULTIPLE
        self._cache = Cache(layers=[StaticLayer(length) for _ in range(model.config.num_hidden_layers)])
        self._token = torch.zeros(batch, 1, dtype=torch.int64, device=model.device)
        self._addresses = _addresses(model)
        self._graph: torch.cuda.CUDAGraph | None = None
        if can_be_captured(model):
            with torch.cuda.device(model.device), torch.no_grad():
                self._graph = self._captured()

    @torch.no_grad()
    def tokens(self, prompt: Tensor, count: int) -> Iterator[Tensor]:
        """Yield the `count` most likely tokens after prompts [batch, tokens], int64 [batch, 1] on the model's device.

        Nothing waits for the device until a token is read. Raises WinaError if the tokens exceed the capacity, and
        RuntimeError if a weight has been moved since the decoder was made.
        """
        if _addresses(self._model) != self._addresses:
            raise RuntimeError("The model's weights have been moved; make a new decoder after fusing or restoring.")
        if prompt.shape[1] + count - 1 > self._capacity:
            raise WinaError(
                f"{prompt.shape[1]} tokens and {count} new ones do not fit into a cache of {self._capacity}; "
                "make a larger one."
            )
        self._cache.reset()
        self._read(prompt)
        if self._fused is not None:
            self._step = self._step or self._fused.step(self._cache, self._token)
            self._step.position.fill_(prompt.shape[1])
        for done in range(1, count + 1):
            # A copy, since the next step overwrites the token in place.
            yield self._token.clone()
            if done == count:
                return
            if self._graph is None:
                self.advance()
            else:
                self._graph.replay()

    def advance(self) -> None:
        if self._step is None:
            self._read(self._token)
        else:
            self._step()

    def _read(self, tokens: Tensor) -> None:
        logits = self._model(tokens, past_key_values=self._cache, use_cache=True, logits_to_keep=1).logits
        self._token.copy_(logits.argmax(-1))

    def _captured(self) -> torch.cuda.CUDAGraph:
        # PyTorch wants the warm-up of a capture on a stream of its own.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._read(self._token)  # makes the cache
            if self._fused is not None:
                self._step = self._fused.step(self._cache, self._token)
            for _ in range(_WARM_UP):
                self.advance()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.advance()
        return graph


def _addresses(model: Any) -> list[int]:
    return [parameter.data_ptr() for parameter in model.parameters()]


def decoding_times(decoder: GraphDecoder, prompt: Tensor, count: int, check: Callable[[], object]) -> Times:
    """Return the times of the start, of the first of `count` (at least 2) new tokens, and of the last.

    `check` is called between tokens and may raise.
    """
    wait(prompt.device)
    start = pausable_clock.now()
    tokens = decoder.tokens(prompt, count)
    next(tokens)
    wait(prompt.device)
    first = pausable_clock.now()
    # No wait between tokens: the processor must stay ahead of the device.
    for _ in tokens:
        check()
    wait(prompt.device)
    return start, first, pausable_clock.now()


def tokens_per_second(decoder: GraphDecoder, prompt: Tensor, count: int, check: Callable[[], object]) -> float:
    """Return the speed of one sequence from the first of `count` new tokens to the last, without the prompt."""
    _, first, end = decoding_times(decoder, prompt, count, check)
    return (count - 1) / (end - first)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
