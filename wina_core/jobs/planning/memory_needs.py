"""Memory and disk that a job takes where they are not those of a model in memory, to be said before a long computation
begins."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wina_core.errors import WinaError
from wina_core.files.disk import free_on_disk, gigabytes
from wina_core.files.memory import free_memory, machine_memory
from wina_core.files.paths import cache_folder
from wina_core.jobs import Job
from wina_core.jobs.planning.products import missing_rotation, needed_models
from wina_core.model_info.cost.refinement import NOTHING, ModelSizes, RefinementNeed, refinement_need
from wina_core.model_info.model_folder import read_supported
from wina_core.model_info.resolve import files_of
from wina_core.model_info.sizes import (
    BY_LAYER,
    ELEMENT_BYTES,
    WORKING,
    converted_bytes,
    fits_memory,
    largest_layer_bytes,
    on_processor,
    suited,
    weights_bytes,
)
from wina_core.specs import ModelSource, QuantizationSpec, RotationSpec

_WORTH_SAYING = 1e9
"""Bytes from which on the need of a search is said."""


@dataclass(frozen=True)
class MemoryNeed:
    """Memory and disk that a model takes whose weights stay in their files, or whose rotation takes much to be found.

    All sizes in bytes.
    """

    location: str
    weights: float
    memory: float
    """Free memory."""
    disk: float
    """Disk that its rotated and converted weights take while they are made; 0 in memory."""
    folder: Path
    """Folder of what is written."""
    free: float
    """Free disk of the folder."""
    by_layer: float = 0.0
    """Least memory for reading it layer by layer, beside quantized weights, which are not in files; 0 if unknown."""
    machine: float = 0.0
    """Memory that would be free without the user's limit."""
    in_files: bool = True
    """Whether its weights stay in their files."""
    search: RefinementNeed = NOTHING
    """Memory and disk of the search for its rotation beside the weights; nothing if it is little or on disk already."""

    @property
    def identity(self) -> tuple[str, bool, float, RefinementNeed]:
        """Return what it takes without what is free, which changes all the time."""
        return self.location, self.in_files, self.disk, self.search

    @property
    def whole(self) -> float:
        """Return the memory of the whole model at work."""
        return WORKING * self.weights

    @property
    def whole_disk(self) -> float:
        """Return the disk of rotated weights and search together."""
        return self.disk + self.search.disk

    @property
    def beside(self) -> float:
        """Return the memory that is free beside the weights."""
        return self.memory if self.in_files else max(self.memory - self.weights, 0.0)

    @property
    def has_search_memory(self) -> bool:
        """Return whether there is memory for the search beside the weights."""
        return self.search.memory <= self.beside

    @property
    def has_disk(self) -> bool:
        """Return whether there is disk for all that is written."""
        return self.whole_disk <= self.free

    @property
    def text(self) -> str:
        """Return the need in a few sentences, with advice where something is short."""
        found, left = [], f"{self.folder} has {gigabytes(self.free)} left."
        if self.in_files:
            found.append(
                f"The weights of {self.location} take {gigabytes(self.weights)}, but {gigabytes(self.memory)} of "
                "memory are free: they are read from their files layer by layer."
            )
        if self.disk:
            found.append(f"Their rotated or converted copies take {gigabytes(self.disk)} of disk, and {left}")
        if self.search.memory:
            disk = f" and {gigabytes(self.search.disk)} of disk" if self.search.disk else ""
            found.append(
                f"Finding the rotation of {self.location} takes {gigabytes(self.search.memory)} of memory{disk} beside "
                f"its weights; {gigabytes(self.beside)} of memory are free beside them."
            )
            if self.search.disk and not self.disk:
                found.append(left)
        return " ".join((*found, *self.advice))

    @property
    def advice(self) -> tuple[str, ...]:
        """Return a sentence for each way that fits better: less of a limit, a smaller search, more memory or disk."""
        found = []
        if self.in_files and self.machine >= self.whole:
            found.append(f"Without the limit on memory it fits: {gigabytes(self.machine)} are free on this machine.")
        elif self.in_files and self.by_layer > self.memory:
            found.append(
                f"Layer by layer it takes {gigabytes(self.by_layer)}: allow or free that much memory, or choose a "
                "smaller data type."
            )
        if not self.has_search_memory:
            found.append(
                "For the rotation search, free memory, choose fewer tokens of its text, or choose the objective eigen."
            )
        if not self.has_disk:
            found.append("Free some space, set WINA_HOME to a folder on another disk, or choose no rotation.")
        return tuple(found)


def memory_needs(job: Job) -> tuple[MemoryNeed, ...]:
    """Return the models of a job on the processor that memory does not hold or whose rotation takes much to be found,
    as far as their sizes are known."""
    if sys.platform != "linux":
        return ()
    found: dict[str, MemoryNeed] = {}
    (machine, _), memory, folder = machine_memory(), free_memory(), cache_folder()
    free = free_on_disk(folder)
    for source, rotation in needed_models(job):
        size = weights_bytes(source)
        if math.isinf(size) or not on_processor(source):
            continue
        in_files = not fits_memory(size)
        disk = _copies(source, rotation, size) if in_files else 0.0
        search = _search_need(source, rotation, size, memory)
        least = BY_LAYER * largest_layer_bytes(source) + _quantized(source, size)
        need = MemoryNeed(source.location, size, memory, disk, folder, free, least, machine, in_files, search)
        if in_files or search.memory:
            found[source.location] = _largest(need, found.get(source.location, need))
    return tuple(found.values())


def _copies(source: ModelSource, rotation: RotationSpec, size: float) -> float:
    """Return the disk of weights that are made from those of the files, which have a size as loaded."""
    stacked, cast = converted_bytes(source)
    rotated = 0.0 if rotation.is_identity else 2 * size + 2 * stacked  # layers and the folder, with stacks of their own
    return stacked + cast + rotated


def _quantized(source: ModelSource, size: float) -> float:
    """Return the memory of quantized weights, of a model of so many bytes in 16 bits or less than that in others."""
    chosen = source.quantization
    if chosen == "none":
        return 0.0
    return size * (chosen.mean_bits if isinstance(chosen, QuantizationSpec) else int(chosen.removeprefix("int"))) / 16


def _largest(one: MemoryNeed, other: MemoryNeed) -> MemoryNeed:
    """Return the largest of each size of a model's two needs, such as those of two rotations."""
    memory, disk = (max(getattr(each.search, name) for each in (one, other)) for name in ("memory", "disk"))
    return replace(
        one,
        weights=max(one.weights, other.weights),
        disk=max(one.disk, other.disk),
        by_layer=max(one.by_layer, other.by_layer),
        in_files=one.in_files or other.in_files,
        search=RefinementNeed(memory, disk),
    )


def _search_need(source: ModelSource, rotation: RotationSpec, size: float, memory: float) -> RefinementNeed:
    """Return what finding a rotation takes beside weights of a size; nothing if it is little, unknown or done."""
    try:
        config, _ = read_supported(files_of(source))
    except (OSError, WinaError):  # the job itself reports a folder that cannot be read better
        return NOTHING
    mapped = not fits_memory(size)
    need = refinement_need(_sizes(config, source, size), rotation, memory - (0 if mapped else size), mapped=mapped)
    if need.memory + need.disk < _WORTH_SAYING or missing_rotation(source, rotation) is None:
        return NOTHING
    return need


def _sizes(config: Mapping[str, Any], source: ModelSource, size: float) -> ModelSizes:
    """Return the sizes that a config.json states, of a model with weights of so many bytes."""
    hidden, layers, vocabulary = (config[name] for name in ("hidden_size", "num_hidden_layers", "vocab_size"))
    inner = config.get("intermediate_size") or config["ffn_dim"]
    experts = config.get("num_experts_per_tok") or 0
    chosen = suited(source, files_of(source)).dtype
    named = chosen if chosen != "auto" else config.get("dtype") or config.get("torch_dtype")
    element = ELEMENT_BYTES.get(str(named), 2)
    heads = config["num_attention_heads"]
    return ModelSizes(
        hidden=hidden,
        attention=heads * (config.get("head_dim") or hidden // heads),
        inner=max(inner, experts * (config.get("moe_intermediate_size") or inner)),
        layers=layers,
        vocabulary=vocabulary,
        element=element,
        layer=max(size / layers, float(vocabulary * hidden * element)),
    )
