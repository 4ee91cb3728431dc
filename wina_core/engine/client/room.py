"""Memory for a second engine: the files' sizes against what is available, without torch."""

import os
import subprocess
import time
from collections.abc import Iterable
from functools import lru_cache

from wina_core.engine.client.job_models import model_of
from wina_core.files.devices import visible_devices
from wina_core.files.memory import MEMORY_VARIABLE, machine_memory
from wina_core.jobs import CostJob, Job
from wina_core.model_info.sizes import WORKING, weights_bytes
from wina_core.specs import ModelSource

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
    models = [*loading, None if job is None or isinstance(job, CostJob) else model_of(job)]
    needed = WORKING * sum(weights_bytes(each) for each in models if each is not None)
    if needed and os.environ.get(MEMORY_VARIABLE):
        return False
    free, total = machine_memory()
    if free - needed - ENGINE_BYTES < MARGIN * total:
        return False
    devices = visible_devices() if needed else ()
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
