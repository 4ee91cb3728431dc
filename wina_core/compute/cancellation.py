"""Cancelling within a batch, which can take far longer than the second in which a cancellation is to be seen."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn

from wina_core.compute.reporter import Reporter


@contextmanager
def cancellable(model: nn.Module, reporter: Reporter, before: Iterable[nn.Module] | None = None) -> Iterator[None]:
    """Within: every matrix product of a forward pass first asks whether to go on, or each of the modules `before` which
    it is enough to ask; numbers stay as they are."""
    asking = [module for module in model.modules() if isinstance(module, nn.Linear)] if before is None else before
    hooks = [module.register_forward_pre_hook(lambda *_: reporter.check()) for module in asking]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
