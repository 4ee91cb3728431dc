"""Cancellation within a batch, since a batch may take longer than the second in which a user expects an effect."""

from collections.abc import Iterable
from contextlib import AbstractContextManager

from torch import nn

from wina_core.compute.hooks import hooked
from wina_core.compute.reporter import Reporter


def cancellable(
    model: nn.Module, reporter: Reporter, before: Iterable[nn.Module] | None = None
) -> AbstractContextManager[None]:
    """Check for cancellation before every linear layer's forward pass within the block, or only before the modules
    `before`."""
    asking = [module for module in model.modules() if isinstance(module, nn.Linear)] if before is None else before
    return hooked(module.register_forward_pre_hook(lambda *_: reporter.check()) for module in asking)
