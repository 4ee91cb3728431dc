"""Memory that computations return to the system."""

import ctypes
import gc
import sys

import torch

_LIBRARY = ctypes.CDLL(None) if sys.platform == "linux" else None


def release_memory() -> None:
    """Return unused memory to the system and the accelerator; call it once no variable holds the error."""
    gc.collect()  # frames that the error came through refer to each other, and hold tensors
    trim_memory()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def trim_memory() -> None:
    """Return freed parts of the heap to the system; glibc keeps them while parts above them are in use."""
    trim = getattr(_LIBRARY, "malloc_trim", None)
    if trim is not None:
        trim(0)
