"""Tensors whose memory is a file, for what memory does not hold."""

import os
import tempfile

import torch
from torch import Tensor

from wina_core.errors import WinaError
from wina_core.files.disk import check_room
from wina_core.files.paths import cache_folder


def in_new_file(count: int, dtype: torch.dtype, what: str, advice: str) -> Tensor:
    """Return a tensor [count] of zeros whose memory is a file in the cache folder, which goes with it; for Linux alone.

    The file has no name, so that it is gone with the process, too. Raises WinaError without room for `what`, such as
    "The states take", with `advice`.
    """
    folder = cache_folder()
    size = count * dtype.itemsize
    check_room(folder, size, what, advice)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a page without room would end the process
            return torch.from_file(f"/proc/self/fd/{file.fileno()}", shared=True, size=count, dtype=dtype)
    except (OSError, RuntimeError) as error:  # torch's, if the system refuses another mapping
        raise WinaError(f"{folder} could not be written to ({error}); {advice}.") from error
