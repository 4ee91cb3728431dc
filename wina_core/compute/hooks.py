"""Hooks on modules for the length of a block."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def hooked(handles: Iterable[Any]) -> Iterator[None]:
    """Remove the hooks of these handles at the end of the block."""
    with ExitStack() as stack:
        for handle in handles:
            stack.callback(handle.remove)
        yield
