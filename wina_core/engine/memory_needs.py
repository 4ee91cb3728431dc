"""Models of a job that memory does not hold: what they take instead, to be said before a long computation begins."""

import math
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from wina_core.engine.client.devices import visible_devices
from wina_core.engine.products import needed_models
from wina_core.engine.protocol import Job
from wina_core.files.memory import free_memory
from wina_core.files.paths import cache_folder
from wina_core.sources.sizes import fits_memory, weights_bytes


@dataclass(frozen=True)
class MemoryNeed:
    """A model whose weights are read from their files layer by layer."""

    location: str
    weights: float
    """Bytes of its weights."""
    memory: float
    """Bytes of memory that are free for it."""
    disk: float
    """Bytes that its rotated weights take on disk while they are written; 0 without a rotation."""
    folder: Path
    """Where."""
    free: float
    """Bytes left there."""

    @property
    def text(self) -> str:
        """Return what it takes, in a sentence or two."""
        text = (
            f"The weights of {self.location} take {_size(self.weights)}, but {_size(self.memory)} of memory are free: "
            "they are read from their files layer by layer."
        )
        if not self.disk:
            return text
        return (
            f"{text} Rotated ones take {_size(self.disk)} of disk while they are written, and {self.folder} has "
            f"{_size(self.free)} left."
        )


def memory_needs(job: Job) -> tuple[MemoryNeed, ...]:
    """Return the models of a job on the processor that memory does not hold, as far as their sizes are known."""
    found: dict[str, MemoryNeed] = {}
    memory, folder = free_memory(), cache_folder()
    free = shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.exists())).free
    for source, rotation in needed_models(job):
        size = weights_bytes(source)
        on_processor = source.device == "cpu" or (source.device == "auto" and not visible_devices())
        if sys.platform != "linux" or not on_processor or math.isinf(size) or fits_memory(size):
            continue
        disk = 0.0 if rotation.is_identity else 2 * size
        if source.location not in found or disk > found[source.location].disk:
            found[source.location] = MemoryNeed(source.location, size, memory, disk, folder, free)
    return tuple(found.values())


def _size(number: float) -> str:
    return f"{number / 1e9:.1f} GB"
