"""Greedy decoding into a cache of fixed size, its step captured in a CUDA graph.

A step of a large model is some hundreds of launches, each shorter than the processor takes to make it: replayed as one
graph they follow each other without a gap, so that what is measured is what the device does. Elsewhere than on CUDA the
step is called plainly, and gives the same tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, StaticLayer

from wina_core.errors import WinaError

_WARM_UP = 3
"""Steps before the capture: in them kernels are compiled and chosen, and libraries take their working memory."""
_READS_POSITIONS = ("opt",)
"""Model types whose step asks the device for the position, which a graph cannot."""
_MULTIPLE = 8
"""Of the cache's length: attention kernels copy a mask whose rows are aligned otherwise."""


def can_be_captured(model: Any) -> bool:
    """Whether the model is on CUDA and its step asks the device for nothing."""
    return model.device.type == "cuda" and model.config.model_type not in _READS_POSITIONS


class GraphDecoder:
    """Decodes one sequence at a time of at most `capacity` tokens.

    The weights and what gates them must stay as they are: a graph remembers the memory that it was captured with. The
    tokens of the warm-up pass through the gates, and are counted there.
    """

    def __init__(self, model: Any, capacity: int) -> None:
        self._model = model
        self._capacity = max(capacity, 1 + _WARM_UP)
        # Full length for every layer, sliding windows too: those are in the mask, which is made of the position on the
        # device, whereas transformers' caches of a window's length choose what to do by a number in Python.
        length = -(-self._capacity // _MULTIPLE) * _MULTIPLE
        self._cache = Cache(layers=[StaticLayer(length) for _ in range(model.config.num_hidden_layers)])
        self._token = torch.zeros(1, 1, dtype=torch.int64, device=model.device)
        self._graph: torch.cuda.CUDAGraph | None = None
        if can_be_captured(model):
            with torch.cuda.device(model.device), torch.no_grad():
                self._graph = self._captured()

    @torch.no_grad()
    def tokens(self, prompt: Tensor, count: int) -> Iterator[Tensor]:
        """The `count` most likely tokens after the prompt [1, tokens], each int64 [1, 1] on the model's device.

        Nothing waits for the device, which lags behind; whoever reads a token does. WinaError when they do not fit.
        """
        if prompt.shape[1] + count - 1 > self._capacity:
            raise WinaError(
                f"{prompt.shape[1]} tokens and {count} new ones do not fit into a cache of {self._capacity}; "
                "make a larger one."
            )
        self._cache.reset()
        self._read(prompt)
        for done in range(1, count + 1):
            yield self._token.clone()
            if done < count:
                self._step()

    def _step(self) -> None:
        if self._graph is None:
            self._read(self._token)
        else:
            self._graph.replay()

    def _read(self, tokens: Tensor) -> None:
        """Put the token that follows in the place of the last one."""
        logits = self._model(tokens, past_key_values=self._cache, use_cache=True, logits_to_keep=1).logits
        self._token.copy_(logits.argmax(-1))

    def _captured(self) -> torch.cuda.CUDAGraph:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(1 + _WARM_UP):  # the first makes the cache
                self._read(self._token)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._read(self._token)
        return graph


def tokens_per_second(decoder: GraphDecoder, prompt: Tensor, count: int, check: Callable[[], object]) -> float:
    """From the first of `count` new tokens, 2 or more, to the last, so that the prompt is not part of it.

    `check` is called between tokens, to raise where it should end.
    """
    tokens = decoder.tokens(prompt, count)
    next(tokens)
    _wait(prompt.device)
    start = time.perf_counter()
    for _ in tokens:
        check()
    _wait(prompt.device)
    return (count - 1) / (time.perf_counter() - start)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
