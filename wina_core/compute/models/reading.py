"""Progress and cancellation while the libraries download a model and read its weights."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from transformers.utils import logging as transformers_logging

from wina_core.compute.reporter import Reporter

_LOADING = "Loading weights"
"""transformers' name of its bar over the weights."""
_TRANSFER = ".transfer"
"""Suffix of huggingface_hub's second bar over the same files: bytes on the network, which may be compressed."""


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


def download_bar(reporter: Reporter, metric: str) -> type:
    """Return a class of bars for `snapshot_download` that reports received bytes and raises Cancelled."""
    from huggingface_hub.utils.tqdm import tqdm

    class Bar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._counts = kwargs.get("unit") == "B" and not str(kwargs.get("name", "")).endswith(_TRANSFER)
            self._done = float(kwargs.get("initial", 0))
            super().__init__(*args, **kwargs)

        def update(self, n: float | None = 1) -> bool | None:
            if self._counts:
                reporter.check()
                self._done += n or 0
                reporter.progress(self._done, self.total or None, "bytes", metric)
            return super().update(n)

    return Bar
