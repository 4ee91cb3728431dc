"""Progress and cancellation while transformers reads a model's weights."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from transformers.utils import logging as transformers_logging

from wina_core.compute.reporter import Reporter

_LOADING = "Loading weights"
"""transformers' name of its bar over the weights."""


@contextmanager
def reporting_weights(sizes: Mapping[str, int], reporter: Reporter) -> Iterator[None]:
    """Report bytes after every weight that transformers loads within the block, and raise Cancelled before the next.

    `sizes` are the bytes of each weight by its name. Weights made from several others count as nothing.
    """

    def hook(bar: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _reported(args[0], sizes, reporter) if kwargs.get("desc") == _LOADING else bar(*args, **kwargs)

    before = transformers_logging.set_tqdm_hook(hook)
    try:
        yield
    finally:
        transformers_logging.set_tqdm_hook(before)


def _reported(weights: Iterable[tuple[str, Any]], sizes: Mapping[str, int], reporter: Reporter) -> Iterator[Any]:
    total, done = sum(sizes.values()), 0
    for name, weight in weights:
        reporter.check()
        yield name, weight
        done += sizes.get(name, 0)
        reporter.progress(done, total, "bytes", "reading weights")
