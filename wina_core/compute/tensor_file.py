"""Safetensors files that are whole or not there."""

import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor


def save_atomically(tensors: Mapping[str, Tensor], path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors to a file under another name, and rename it once it is written; make its folder.

    The other name is its own: several engines may find the same tensors. Raises OSError or SafetensorError, and leaves
    the earlier file and nothing else.
    """
    temporary = path.with_name(f".{uuid.uuid4().hex}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(dict(tensors), temporary, dict(metadata) if metadata else None)
        temporary.replace(path)
    finally:
        with suppress(OSError):  # renamed already, or the first error is the one to report
            temporary.unlink()
