"""Hooks on modules and attributes of objects for the length of a block.

With them a computation is cancelled within a batch, since a batch may take longer than the second in which a user
expects an effect.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from torch import nn

from wina_core.compute.reporter import Reporter


@contextmanager
def hooked(handles: Iterable[Any]) -> Iterator[None]:
    """Remove the hooks of these handles at the end of the block."""
    with ExitStack() as stack:
        for handle in handles:
            stack.callback(handle.remove)
        yield


@contextmanager
def attributes(owner: object, **values: Any) -> Iterator[None]:
    """Give an object, a module or a class other attributes within the block, and its own ones after it."""
    # Not by getattr: an inherited attribute is deleted at the end instead of copied to the object.
    before = {name: vars(owner)[name] for name in values if name in vars(owner)}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name in values:
            if name in before:
                setattr(owner, name, before[name])
            else:
                delattr(owner, name)


def cancellable(
    model: nn.Module, reporter: Reporter, before: Iterable[nn.Module] | None = None
) -> AbstractContextManager[None]:
    """Check for cancellation before every linear layer's forward pass within the block, or only before the modules
    `before`."""
    asking = [module for module in model.modules() if isinstance(module, nn.Linear)] if before is None else before
    return hooked(module.register_forward_pre_hook(lambda *_: reporter.check()) for module in asking)
