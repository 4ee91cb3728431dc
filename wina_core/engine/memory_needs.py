"""Models of a job that memory does not hold: what they take instead, to be said before a long computation begins."""

import math
import sys
from dataclasses import dataclass
from pathlib import Path

from wina_core.engine.client.devices import visible_devices
from wina_core.engine.products import needed_models
from wina_core.engine.protocol import Job
from wina_core.files.disk import free_on_disk, gigabytes
from wina_core.files.memory import free_memory
from wina_core.files.paths import cache_folder
from wina_core.sources.sizes import fits_memory, weights_bytes
from wina_core.specs import ModelSource


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
            f"The weights of {self.location} take {gigabytes(self.weights)}, but {gigabytes(self.memory)} of memory "
            "are free: they are read from their files layer by layer."
        )
        if not self.disk:
            return text
        return (
            f"{text} Rotated ones take {gigabytes(self.disk)} of disk while they are written, and {self.folder} has "
            f"{gigabytes(self.free)} left."
        )


def memory_needs(job: Job) -> tuple[MemoryNeed, ...]:
    """Return the models of a job on the processor that memory does not hold, as far as their sizes are known."""
    if sys.platform != "linux":
        return ()
    found: dict[str, MemoryNeed] = {}
    memory, folder = free_memory(), cache_folder()
    free = free_on_disk(folder)
    for source, rotation in needed_models(job):
        size = weights_bytes(source)
        if math.isinf(size) or fits_memory(size) or not _on_processor(source):
            continue
        disk = 0.0 if rotation.is_identity else 2 * size
        if source.location not in found or disk > found[source.location].disk:
            found[source.location] = MemoryNeed(source.location, size, memory, disk, folder, free)
    return tuple(found.values())


def _on_processor(source: ModelSource) -> bool:
    """Return whether a model is loaded for the processor; the driver, which is slow, is asked only for "auto"."""
    return source.device == "cpu" or (source.device == "auto" and not visible_devices())
