"""Weights that are converted while a model is loaded or saved, in files instead of memory.

transformers stacks the experts of a layer, takes the stacks apart again, and casts to another data type. What it makes
is copied to a file without a name, so that a model larger than memory is converted so, too.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from wina_core.compute.models.file_memory import in_new_file
from wina_core.compute.models.mapped import drop_pages, in_files
from wina_core.errors import WinaError
from wina_core.files.disk import OTHER_DISK

_ATEN = torch.ops.aten
_MAKING = (
    _ATEN.stack.default,
    _ATEN.cat.default,
    _ATEN.clone.default,
    _ATEN.new_empty.default,
    _ATEN._to_copy.default,
)
"""Operations that give new memory to a weight."""
_WHAT = "Memory does not hold the model, and a weight that transformers converts takes"
_IN_ONE_THREAD = "HF_DEACTIVATE_ASYNC_LOAD"
"""Variable that lets transformers read a weight when it is converted, in the thread whose operations are seen here."""


@contextmanager
def converted_in_files(give_back: Callable[[Iterable[Tensor]], object]) -> Iterator[None]:
    """Keep weights that are converted within the block in files, for as long as they are used.

    `give_back` takes what was converted, to give back the memory of tensors that are unchanged in files. Raises
    WinaError if the disk has no room, also where the block turns that into an error of its own.
    """
    mode, before = _InFiles(give_back), os.environ.get(_IN_ONE_THREAD)
    os.environ[_IN_ONE_THREAD] = "1"
    try:
        with mode:
            yield
    finally:
        os.environ.pop(_IN_ONE_THREAD)
        if before is not None:
            os.environ[_IN_ONE_THREAD] = before
        if mode.refused is not None:
            raise mode.refused


class _InFiles(TorchDispatchMode):
    def __init__(self, give_back: Callable[[Iterable[Tensor]], object]) -> None:
        super().__init__()
        self._give_back = give_back
        self._latest: Tensor | None = None
        self.refused: WinaError | None = None

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        if func not in _MAKING or not isinstance(found, Tensor) or not found.is_cpu or not found.numel():
            return found
        if self._latest is not None:
            drop_pages(self._latest)  # which is filled by now
        self._give_back(args[0] if isinstance(args[0], list | tuple) else (args[0],))
        try:
            own = in_new_file(found.numel(), found.dtype, _WHAT, OTHER_DISK).view(found.shape)
        except WinaError as error:
            self.refused = error
            raise
        if func is not _ATEN.new_empty.default:
            own.copy_(found)
        self._latest = own
        return own


def give_back_unchanged(tensors: Iterable[Tensor]) -> None:
    """Give back the memory of tensors in files, none of which may have been changed since it was mapped."""
    for tensor in in_files(tensors):
        drop_pages(tensor)


def give_back_converted(tensors: Iterable[Tensor]) -> None:
    """Give back the memory of those tensors that were converted, which keep what is written to them."""
    for tensor in tensors:
        if tensor.untyped_storage().filename is not None:  # torch names a shared file alone
            drop_pages(tensor)
