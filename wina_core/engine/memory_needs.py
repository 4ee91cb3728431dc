"""Models of a job that memory does not hold: what they take instead, to be said before a long computation begins."""

import math
import sys
from dataclasses import dataclass
from pathlib import Path

from wina_core.engine.client.devices import visible_devices
from wina_core.engine.products import needed_models
from wina_core.engine.protocol import Job
from wina_core.files.disk import free_on_disk, gigabytes
from wina_core.files.memory import free_memory, machine_memory
from wina_core.files.paths import cache_folder
from wina_core.sources.sizes import BY_LAYER, WORKING, fits_memory, largest_layer_bytes, weights_bytes
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
    by_layer: float = 0.0
    """Bytes of memory that reading it layer by layer takes at least; 0 if unknown."""
    machine: float = 0.0
    """Bytes of memory that would be free without the user's limit."""

    @property
    def whole(self) -> float:
        """Return the bytes of memory that would hold it at work."""
        return WORKING * self.weights

    @property
    def text(self) -> str:
        """Return what it takes, and what to do where that is not there, in a few sentences."""
        text = (
            f"The weights of {self.location} take {gigabytes(self.weights)}, but {gigabytes(self.memory)} of memory "
            "are free: they are read from their files layer by layer."
        )
        if self.disk:
            text = (
                f"{text} Rotated ones take {gigabytes(self.disk)} of disk while they are written, and {self.folder} "
                f"has {gigabytes(self.free)} left."
            )
        return " ".join((text, *self.advice))

    @property
    def advice(self) -> tuple[str, ...]:
        """Return a sentence for each way that fits better: less of a limit, more memory, or more disk."""
        found = []
        if self.machine >= self.whole:
            found.append(f"Without the limit on memory it fits: {gigabytes(self.machine)} are free on this machine.")
        elif self.by_layer > self.memory:
            found.append(
                f"Layer by layer it takes {gigabytes(self.by_layer)}: allow or free that much memory, or choose a "
                "smaller data type."
            )
        if self.disk > self.free:
            found.append("Free some space, set WINA_HOME to a folder on another disk, or choose no rotation.")
        return tuple(found)


def memory_needs(job: Job) -> tuple[MemoryNeed, ...]:
    """Return the models of a job on the processor that memory does not hold, as far as their sizes are known."""
    if sys.platform != "linux":
        return ()
    found: dict[str, MemoryNeed] = {}
    (machine, _), memory, folder = machine_memory(), free_memory(), cache_folder()
    free = free_on_disk(folder)
    for source, rotation in needed_models(job):
        size = weights_bytes(source)
        if math.isinf(size) or fits_memory(size) or not _on_processor(source):
            continue
        disk = 0.0 if rotation.is_identity else 2 * size
        if source.location not in found or disk > found[source.location].disk:
            least = BY_LAYER * largest_layer_bytes(source)
            found[source.location] = MemoryNeed(source.location, size, memory, disk, folder, free, least, machine)
    return tuple(found.values())


def _on_processor(source: ModelSource) -> bool:
    """Return whether a model is loaded for the processor; the driver, which is slow, is asked only for "auto"."""
    return source.device == "cpu" or (source.device == "auto" and not visible_devices())
