"""Forward passes that end early or have parts replaced."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from wina_core.compute.models.view import ModelView


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
    return layer_inputs(*given[0])


def layer_inputs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """Return the hidden states and the other arguments of a call of a decoder layer."""
    return (args[0], kwargs) if args else (kwargs.pop("hidden_states"), kwargs)
