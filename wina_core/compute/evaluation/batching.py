"""Batch sizes: as requested, or as memory allows."""

from collections.abc import Callable
from typing import Literal, TypeVar

from wina_core.compute.latency.device import free_bytes
from wina_core.compute.memory import release_memory
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.reporter import Reporter
from wina_core.errors import ran_out_of_memory

T = TypeVar("T")

LARGEST = 64
"""Largest automatic batch: beyond, a batch is no faster and pads more."""
_TOKENS = 1024
"""Tokens of the largest automatic batch on a CPU: beyond, a batch is no faster, and its logits take more memory."""
_SHARE = 0.5
"""Share of the free memory that a batch's estimate may use."""


class Batches:
    """Batch sizes of one attempt at a measurement."""

    def __init__(self, loaded: LoadedModel, limit: int, estimated: bool) -> None:
        self._loaded = loaded
        self._limit = limit
        self._estimated = estimated
        self.largest = 0
        """Largest batch so far."""

    def size(self, tokens: int) -> int:
        """Return the batch size if the longest sequence has so many tokens."""
        size = self._limit
        if self._estimated:
            fitting = _SHARE * free_bytes(self._loaded.device) / sequence_bytes(self._loaded, max(tokens, 1))
            if self._loaded.device.type == "cpu":
                size = min(size, _TOKENS // max(tokens, 1))
            size = max(1, min(size, int(fitting)))
        self.largest = max(self.largest, size)
        return size


def with_batches(
    asked: int | Literal["auto"],
    loaded: LoadedModel,
    what: str,
    reporter: Reporter,
    measure: Callable[[Batches], T],
) -> T:
    """Return the result of `measure`. Under "auto", repeat it with half the batch size after running out of memory,
    down to 1."""
    if asked != "auto":
        return measure(Batches(loaded, asked, estimated=False))
    limit = LARGEST
    while True:
        batches = Batches(loaded, limit, estimated=True)
        try:
            result = measure(batches)
        except Exception as error:
            if not ran_out_of_memory(error) or batches.largest <= 1:
                raise
            limit = batches.largest // 2
        else:
            reporter.log("info", f"{what}: at most {batches.largest} sequences at once.")
            return result
        reporter.log("warning", f"{what}: memory ran out at {batches.largest} sequences at once; trying {limit}.")
        release_memory()


def sequence_bytes(loaded: LoadedModel, tokens: int) -> int:
    """Estimate a forward pass's peak memory for one sequence, without weights.

    It holds the logits, and twice as many in 32 bits for log-probabilities; keys and values of all layers; and for one
    layer eight vectors as wide as the stream and four as wide as the MLP. Attention that keeps its scores takes more.
    """
    view, element = loaded.view, loaded.dtype.itemsize
    logits = view.head.out_features * (element + 2 * max(element, 4))
    cache = 2 * len(view.layers) * view.kv_heads * view.head_dim
    layer = 8 * view.hidden_size + 4 * view.layers[0].matrices_read("up") * view.layers[0].shape("up")[0]
    return tokens * (logits + element * (cache + layer))
