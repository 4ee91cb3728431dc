"""Cancelling within a batch, which can take far longer than the second in which a cancellation is to be seen."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from wina_core.reporting import Reporter


@contextmanager
def cancellable(model: nn.Module, reporter: Reporter) -> Iterator[None]:
    """Within: every matrix product of a forward pass first asks whether to go on; numbers stay as they are."""
    matrices = [module for module in model.modules() if isinstance(module, nn.Linear)]
    hooks = [module.register_forward_pre_hook(lambda *_: reporter.check()) for module in matrices]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
