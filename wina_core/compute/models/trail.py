"""Gradients through a model, a decoder layer at a time.

Each layer's weights are read once forward and once back for all batches. Only what enters the layers is kept, in a file
where memory does not hold it; a layer's graph is made again on the way back.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from wina_core.compute.hooks import hooked
from wina_core.compute.memory import trim_memory
from wina_core.compute.models.hidden_states import HiddenStates
from wina_core.compute.models.passage import Passage
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter

Gates = Callable[[LayerView], AbstractContextManager[Any]]
Loss = Callable[[int, Tensor], Tensor]
"""The loss of a batch, by its number and its logits [rows, sequence, vocabulary]."""


class Trail:
    """Lane of a passage that keeps what enters each layer, for gradients that pass the layers back.

    `batches` are those of the passage. Within `gates(layer)` a layer runs, both forward and back.
    """

    def __init__(self, view: ModelView, batches: Sequence[Tensor], gates: Gates = lambda _: nullcontext()) -> None:
        self._view, self._batches, self._gates = view, batches, gates
        self._arguments: list[dict[str, Any]] = []
        # what enters layer l of L in batch b of B, at l B + b, and from L B on the gradients of what leaves the last
        self._states = HiddenStates(sum(batch.numel() for batch in batches) * (len(view.layers) + 1), 1)

    def begin(self, tokens: Tensor) -> None:
        """Begin a batch, as any other."""

    @contextmanager
    def at(self, layer: LayerView) -> Iterator[None]:
        """Gate a layer and keep what enters it within the block."""
        with (
            self._gates(layer),
            hooked([layer.module.register_forward_pre_hook(self._keep, with_kwargs=True)]),
        ):
            yield

    def _keep(self, _: nn.Module, args: tuple[Tensor], kwargs: dict[str, Any]) -> None:
        self._states.add(args[0].clone())  # the passage may write over its own
        self._arguments.append(kwargs)

    def turn(self, passage: Passage, loss: Loss, lane: int = 0) -> None:
        """Differentiate the loss of each batch, in order, as it leaves the layers of the passage in this lane."""
        left: list[Tensor] = []

        def leaf(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
            left[:] = [output.detach().requires_grad_()]
            return left[0]

        last = self._view.layers[-1].module
        with passage.arriving(lane), torch.enable_grad(), hooked([last.register_forward_hook(leaf)]):
            for index, batch in enumerate(self._batches):
                logits = self._view.model(batch.to(self._view.embedding.weight.device), use_cache=False).logits
                loss(index, logits).backward()
                assert left[0].grad is not None
                self._states.add(left[0].grad)
        self._view.give_back(self._view.model)
        trim_memory()

    def back(self, reporter: Reporter) -> Iterator[LayerView]:
        """Yield each layer, the last one first, after the gradients of all batches have passed it."""
        for position, layer in reversed(list(enumerate(self._view.layers))):
            self._view.read_ahead(self._view.layers[:position][-1:])
            with self._gates(layer), torch.enable_grad():
                for index in range(len(self._batches)):
                    reporter.check()
                    self._pass_back(layer, position * len(self._batches) + index)
            yield layer
            self._view.give_back(layer.module)
            trim_memory()

    def _pass_back(self, layer: LayerView, place: int) -> None:
        entered = self._states.get(0, place).detach().requires_grad_()
        above = place + len(self._batches)
        layer.module(entered, **self._arguments[place]).backward(self._states.get(0, above))
        assert entered.grad is not None
        self._states.set(0, place, entered.grad)
        self._states.release(0, above)
