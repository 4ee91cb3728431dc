"""Passes of many batches and configurations through a model, a decoder layer at a time.

Each layer's weights are read once for all of them. Afterwards, model calls on the same batches skip the layers.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from wina_core.compute.hooks import hooked
from wina_core.compute.models.finite import not_numbers
from wina_core.compute.models.hidden_states import HiddenStates
from wina_core.compute.models.passes import layer_inputs, replaced, stopping_at
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter


class Lane(Protocol):
    """A configuration that batches pass the layers with."""

    def begin(self, tokens: Tensor) -> None:
        """Begin a batch, ids [rows, sequence]."""

    def at(self, layer: LayerView) -> Any:
        """Return a context manager in which the layer is gated."""


_TOKENS = 2048
"""Tokens of a batch of a measurement: more are no faster on a processor and take more memory."""
Hooks = Callable[[LayerView], Iterable[Any]]


class Passage:
    """Hidden states of batches, one copy for each lane.

    `batches` are ids, int64 [rows, sequence] each. A lane of None is the model as it is.
    """

    def __init__(self, view: ModelView, batches: Sequence[Tensor], lanes: Sequence[Lane | None] = (None,)) -> None:
        self._view = view
        self._batches = batches
        self._lanes = lanes
        self._keys = [_key(batch) for batch in batches]
        self._arguments: list[list[dict[str, Any]]] = []
        self._hidden = HiddenStates(sum(batch.numel() for batch in batches), len(lanes))
        for batch in batches:
            hidden, arguments = _entry(view, batch)
            self._hidden.add(hidden)
            self._arguments.append(arguments)

    @torch.no_grad()
    def layers(self, reporter: Reporter, hooks: Hooks = lambda _: (), where: str | None = None) -> Iterator[LayerView]:
        """Yield each decoder layer, in order, after all batches have passed it in every lane, with its `hooks`.

        A layer may change once it was yielded: the next one still reads what it gave before. Memory of unchanged
        weights in files is given back with each layer. Raises WinaError for hidden states that are not numbers if the
        measurement, `where`, is named, as in "on demo_choice".
        """
        for layer in self._view.layers:
            with hooked(hooks(layer)):
                for lane in range(len(self._lanes)):
                    self._pass(layer, lane, reporter, where)
            yield layer
            self._view.give_back(layer.module)

    def _pass(self, layer: LayerView, lane: int, reporter: Reporter, where: str | None) -> None:
        gates = self._lanes[lane]
        with ExitStack() as stack:
            if gates is not None:
                stack.enter_context(gates.at(layer))
            for index, (batch, arguments) in enumerate(zip(self._batches, self._arguments, strict=True)):
                if gates is not None:
                    gates.begin(batch)
                forward = partial(layer.module, self._hidden.get(lane, index), **arguments[layer.index])
                found = forward()
                if where is not None and not found.isfinite().all():
                    raise not_numbers(self._view, where, forward)
                self._hidden.set(lane, index, found)
                reporter.check()

    def run(self, reporter: Reporter) -> None:
        """Let all batches pass all layers."""
        for _ in self.layers(reporter):
            pass

    def forget(self, lane: int) -> None:
        """Free the hidden states of a lane."""
        self._hidden.forget(lane)

    @contextmanager
    def arriving(self, lane: int = 0) -> Iterator[None]:
        """Let model calls on the batches within the block skip the layers, with what has passed them in a lane."""
        arrived = dict(zip(self._keys, self._hidden.of(lane), strict=True))
        called: list[Tensor] = []

        def record(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            called[:] = [args[0] if args else kwargs["input_ids"]]

        *layers, last = (layer.module for layer in self._view.layers)
        with ExitStack() as stack:
            for layer in layers:
                stack.enter_context(replaced(layer, _unchanged))
            stack.enter_context(replaced(last, lambda *_, **__: arrived[_key(called[0])]))
            stack.enter_context(hooked([self._view.model.register_forward_pre_hook(record, with_kwargs=True)]))
            yield


def in_batches(tokens: Tensor) -> tuple[Tensor, ...]:
    """Return rows of ids [rows, sequence] in batches of about `_TOKENS`."""
    return tokens.split(max(1, _TOKENS // tokens.shape[1]))


def _entry(view: ModelView, tokens: Tensor) -> tuple[Tensor, list[dict[str, Any]]]:
    """Return the hidden states that enter the first layer, and the other arguments of each layer."""
    tokens = tokens.to(view.embedding.weight.device)
    arguments: list[dict[str, Any]] = []

    def record(hidden_states: Tensor, **kwargs: Any) -> Tensor:
        arguments.append(kwargs)
        return hidden_states

    *layers, last = (layer.module for layer in view.layers)
    with ExitStack() as stack, torch.no_grad():
        for layer in layers:
            stack.enter_context(replaced(layer, record))
        given = stack.enter_context(stopping_at(last))
        view.model(tokens, use_cache=False)
    hidden, own = layer_inputs(*given[0])
    return hidden, [*arguments, own]


def _unchanged(hidden_states: Tensor, **_: Any) -> Tensor:
    return hidden_states


def _key(tokens: Tensor) -> tuple[torch.Size, bytes]:
    return tokens.shape, tokens.cpu().numpy().tobytes()
