"""Weights that are converted while a model is loaded, in files instead of memory.

transformers stacks the experts of a layer, and casts to another data type. What it makes is written to a file without a
name and mapped from there, so that a model larger than memory can be loaded so, too.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from wina_core.compute.models.mapped import drop_pages
from wina_core.errors import WinaError
from wina_core.files.disk import check_room

_ATEN = torch.ops.aten
_MAKING = (_ATEN.stack.default, _ATEN.cat.default, _ATEN.clone.default, _ATEN._to_copy.default)
"""Operations that give new memory to a weight."""
_IN_ONE_THREAD = {"HF_DEACTIVATE_ASYNC_LOAD": "1"}
"""transformers reads a weight when it is converted, in the thread whose operations are seen here."""


@contextmanager
def converted_in(folder: Path) -> Iterator[None]:
    """Keep weights that are converted within the block in files on a folder's disk, for as long as they are used.

    Raises WinaError if the disk has no room, also where the block turns that into an error of its own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mode = _InFiles(folder)
    try:
        with patch.dict(os.environ, _IN_ONE_THREAD), mode:
            yield
    except Exception as error:
        if mode.refused is not None:
            raise mode.refused from error
        raise


class _InFiles(TorchDispatchMode):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
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
        for each in args[0] if isinstance(args[0], list | tuple) else (args[0],):
            if each.untyped_storage().filename is not None:
                drop_pages(each)
        try:
            check_room(
                self._folder,
                found.nbytes,
                "Memory does not hold the model, and a weight that is converted while it is loaded takes",
                "free some space, or set WINA_HOME to a folder on another disk",
            )
            return _in_file(found, self._folder)
        except (OSError, WinaError) as error:
            self.refused = (
                error
                if isinstance(error, WinaError)
                else WinaError(f"A converted weight could not be written to {self._folder} ({error}); free some space.")
            )
            raise


def _in_file(tensor: Tensor, folder: Path) -> Tensor:
    """Return a tensor whose memory is a file, which goes with it."""
    flat = tensor.contiguous().view(-1)
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(flat.view(torch.uint8).numpy().data)
        file.flush()
        mapped = torch.from_file(f"/proc/self/fd/{file.fileno()}", size=flat.numel(), dtype=tensor.dtype)
    return mapped.view(tensor.shape)
