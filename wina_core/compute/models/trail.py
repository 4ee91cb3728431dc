"""Gradients through a model, a decoder layer at a time, and those of the log-likelihood of labels that the model draws
itself, for Fisher information.

Each layer's weights are read once forward and once back for all batches. Only what enters the layers is kept, in a file
where memory does not hold it; a layer's graph is made again on the way back.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from wina_core.compute.hooks import hooked
from wina_core.compute.memory import trim_memory
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.passage import HiddenStates, Passage
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
        # State l B + b enters layer l in batch b of B; from l = L on it is the gradient of what leaves the last layer.
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

        # Cut off from the layers, the graph of a batch holds the final norm and the head alone.
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

    def _pass_back(self, layer: LayerView, index: int) -> None:
        entered = self._states.get(0, index).detach().requires_grad_()
        above = index + len(self._batches)
        layer.module(entered, **self._arguments[index]).backward(self._states.get(0, above))
        assert entered.grad is not None
        # The input is not read again, so that its gradient can take its place.
        self._states.set(0, index, entered.grad)
        self._states.release(0, above)


_FORWARD = 0.25
"""Share of the time until all rows have passed the layers forward."""


def differentiate_samples(
    view: ModelView,
    tokens: Tensor,
    hooks: Iterable[Any],
    reporter: Reporter,
    passed: Callable[[LayerView], object] = lambda _: None,
    *,
    by_layer: bool | None = None,
) -> None:
    """Pass rows of `tokens` [rows, sequence] forward and back, with the gradient of -log p(y).

    Labels y are drawn from the model's own prediction at the scored positions with a fixed seed; `hooks` collect, and
    are removed. `passed` gets each layer once the gradients of all rows have passed it. One row after the other passes
    the whole model, and memory holds its graph. With `by_layer`, which is usual for weights in files, all rows pass a
    layer before the next one: memory holds one row's graph of one layer, the weights are read twice in all, and one
    more forward pass is computed. The gradients are the same bit for bit. Raises WinaError if logits are not numbers.
    """
    rows, generator = tokens.split(1), torch.Generator().manual_seed(0)

    def loss(_: int, logits: Tensor) -> Tensor:
        check_numbers(logits)
        likelihoods = logits[:, view.first_scored :].flatten(0, 1).float().log_softmax(-1)
        labels = torch.multinomial(likelihoods.detach().exp().cpu(), 1, generator=generator)
        return likelihoods.gather(1, labels.to(logits.device)).sum().neg()

    if by_layer or (by_layer is None and view.mapped is not None):
        _by_layer(view, rows, loss, hooks, reporter, passed)
        return
    # gradients from the embedding on, although no weight requires them
    start = view.embedding.register_forward_hook(lambda *call: call[-1].requires_grad_())
    with torch.enable_grad(), hooked([start, *hooks]):
        for done, row in enumerate(rows, start=1):
            reporter.check()
            loss(0, view.model(row.to(view.embedding.weight.device), use_cache=False).logits).backward()
            reporter.progress(done * row.numel(), tokens.numel(), "tokens")
    for layer in reversed(view.layers):
        passed(layer)


def _by_layer(
    view: ModelView,
    rows: tuple[Tensor, ...],
    loss: Callable[[int, Tensor], Tensor],
    hooks: Iterable[Any],
    reporter: Reporter,
    passed: Callable[[LayerView], object],
) -> None:
    trail = Trail(view, rows)
    passage = Passage(view, rows, [trail])

    def report(done: float) -> None:
        total = sum(row.numel() for row in rows)
        reporter.progress(round(total * done / len(view.layers)), total, "tokens")

    for done, _ in enumerate(passage.layers(reporter), start=1):
        report(done * _FORWARD)
    trail.turn(passage, loss)
    passage.forget(0)
    with hooked(hooks):
        for done, layer in enumerate(trail.back(reporter), start=1):
            passed(layer)
            report(len(view.layers) * _FORWARD + done * (1 - _FORWARD))
