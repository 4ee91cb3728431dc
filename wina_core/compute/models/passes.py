"""Forward passes that end early or have parts replaced."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from wina_core.compute.hooks import hooked
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter


@contextmanager
def replaced(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Redirect calls of the module to `forward` within the block."""
    own = module.__dict__.get("forward")
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
        if own is not None:
            module.forward = own


class _Reached(Exception):  # noqa: N818 - where a pass was meant to end, not an error
    """End of a forward pass, with the inputs it was started for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.given = args, kwargs


@contextmanager
def stopping_at(module: nn.Module) -> Iterator[list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """End a pass within the block at the module's call; the yielded list receives the call's (args, kwargs)."""

    def stop(*args: Any, **kwargs: Any) -> None:
        raise _Reached(*args, **kwargs)

    given: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    with replaced(module, stop):
        try:
            yield given
        except _Reached as reached:
            given.append(reached.given)


def layer_call(view: ModelView, layer: int, tokens: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """Return a decoder layer's inputs in a pass over `tokens` [rows, sequence]: hidden states, other arguments."""
    with stopping_at(view.layers[layer].module) as given, torch.no_grad():
        view.model(tokens, use_cache=False)
    (args, kwargs), *_ = given
    hidden = args[0] if args else kwargs.pop("hidden_states")
    return hidden, kwargs


@torch.no_grad()
def layer_by_layer(
    view: ModelView, tokens: Tensor, hooks: Callable[[LayerView], Iterable[Any]], reporter: Reporter
) -> Iterator[LayerView]:
    """Yield each decoder layer, in order, after all rows of `tokens` [rows, sequence] have passed it with its `hooks`.

    All rows pass one layer before the next, so only one copy of the hidden states is held. A layer may change once it
    was yielded: the next one still reads what it gave before.
    """
    device = view.embedding.weight.device
    layer_arguments = _layer_arguments(view, tokens[:1].to(device))
    hidden = [layer_call(view, 0, row.to(device))[0] for row in tokens.split(1)]
    for layer, arguments in zip(view.layers, layer_arguments, strict=True):
        with hooked(hooks(layer)):
            for row, states in enumerate(hidden):
                hidden[row] = layer.module(states, **arguments)
                reporter.check()
        yield layer


def _layer_arguments(view: ModelView, row: Tensor) -> list[dict[str, Any]]:
    """Return the model's arguments to each decoder layer beside the hidden states: positions and the layer's mask."""
    arguments: list[dict[str, Any]] = []

    def record(_module: nn.Module, _args: Any, kwargs: dict[str, Any]) -> None:
        arguments.append(kwargs)

    hooks = [layer.module.register_forward_pre_hook(record, with_kwargs=True) for layer in view.layers]
    decoder: Any = view.model.base_model
    with hooked(hooks):
        decoder(row, use_cache=False)
    return arguments
