"""Memory of computations that failed for want of it."""

import gc

import torch


def release_memory() -> None:
    """Return unused memory to the system and to the accelerator, once no variable holds the error that ended it."""
    gc.collect()  # frames that the error came through refer to each other, and hold tensors
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
