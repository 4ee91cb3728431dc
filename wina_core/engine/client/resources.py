"""Shares of this machine for engines: how many there are, the devices and threads of each, and memory for another one.

Without torch, since the window asks: devices are those that the driver lists, sizes those of files.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterable
from functools import lru_cache

from wina_core.files.hardware import MEMORY_VARIABLE, machine_memory, visible_devices
from wina_core.jobs import CostJob, Job
from wina_core.model_info.sizes import WORKING, weights_bytes
from wina_core.specs import ModelSource

BATCH_NICENESS = 5
"""Niceness of engines beside a light one, which then gets three times their share of a busy processor."""


def engine_count() -> int:
    return max(1, len(visible_devices()))


def engine_environments(engines: int) -> tuple[dict[str, str], ...]:
    """Return the environment variables of each engine: its own device, or its share of the processor's threads."""
    if engines == 1:
        return ({},)
    devices = visible_devices()
    if devices:
        return tuple({"CUDA_VISIBLE_DEVICES": devices[index % len(devices)]} for index in range(engines))
    threads = max(1, _threads() // engines)
    return tuple({"OMP_NUM_THREADS": str(threads)} for _ in range(engines))


def light_environment() -> dict[str, str]:
    """Return the environment variables of an engine beside the others: the last device, half of the threads."""
    devices = visible_devices()
    device = {"CUDA_VISIBLE_DEVICES": devices[-1]} if devices else {}
    return {**device, "OMP_NUM_THREADS": str(max(1, _threads() // 2))}


def with_lower_priority(environment: dict[str, str]) -> dict[str, str]:
    return {**environment, "WINA_ENGINE_NICE": str(BATCH_NICENESS)}


def _threads() -> int:
    """Return the threads that one engine would use."""
    requested = os.environ.get("OMP_NUM_THREADS", "")
    if requested.isdecimal():
        return int(requested)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# ---- memory for an engine beside others ------------------------------------------------------------------------------

ENGINE_BYTES = 1 << 30
"""Memory of an engine with its libraries, before any model (0.7 GiB measured)."""
MARGIN = 0.1
"""Share of the machine's memory that must stay available."""
_FRESH_SECONDS = 5.0
"""Time for which an answer of the GPU's driver, which takes up to 2 s, is used again."""


def has_room(job: Job | None, loading: Iterable[ModelSource | None] = ()) -> bool:
    """Return whether memory allows a second engine that computes this job; for None, one without a model.

    `loading` are models that other engines may yet take memory for. A model of unknown size has no room; nor has any
    where the user limits the memory, which is that of one engine.
    """
    models = [*loading, None if job is None or isinstance(job, CostJob) else job.first_model]
    needed = WORKING * sum(weights_bytes(model) for model in models if model is not None)
    if needed and os.environ.get(MEMORY_VARIABLE):
        return False
    free, total = machine_memory()
    if free - needed - ENGINE_BYTES < MARGIN * total:
        return False
    devices = visible_devices() if needed else ()
    # The time is rounded for the cache: the driver is asked again only after _FRESH_SECONDS.
    return not devices or _gpu_free(devices[-1], time.monotonic() // _FRESH_SECONDS) > needed + ENGINE_BYTES


@lru_cache(maxsize=4)
def _gpu_free(device: str, _time: float) -> float:
    """Return the free bytes of a CUDA device at about a time; 0 if the driver does not answer."""
    query = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits", "-i", device]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=2.0, check=True)
        return float(answer.stdout.split()[0]) * 2**20
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return 0.0


HasRoom = Callable[[Job | None, Iterable[ModelSource | None]], bool]
"""`has_room`."""
