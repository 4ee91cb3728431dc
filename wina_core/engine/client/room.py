"""Memory for a second engine: the files' sizes against what is available, without torch."""

import subprocess
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from wina_core.engine.client.devices import visible_devices
from wina_core.engine.client.worker import model_of
from wina_core.engine.protocol import CostJob, Job
from wina_core.errors import WinaError
from wina_core.sources.resolve import local_folder
from wina_core.specs import ModelSource

ENGINE_BYTES = 1 << 30
"""Memory of an engine with its libraries, before any model (0.7 GiB measured)."""
MARGIN = 0.1
"""Share of the machine's memory that must stay available."""
_WORKING = 1.5
"""Memory of a model at work over the size of its weights: activations, copies while rotating."""
_WIDENED = {"float32": 2, "float64": 4}
"""Largest factor of a data type over that of the files."""
_CGROUP = Path("/sys/fs/cgroup")


def has_room(job: Job | None) -> bool:
    """Return whether memory allows a second engine that computes this job; for None, one without a model."""
    needed = 0.0 if job is None or isinstance(job, CostJob) else _WORKING * _model_bytes(model_of(job))
    free, total = _memory()
    if free - needed - ENGINE_BYTES < MARGIN * total:
        return False
    devices = visible_devices() if needed else ()
    return not devices or _gpu_free(devices[-1]) > needed + ENGINE_BYTES


def _model_bytes(source: ModelSource | None) -> float:
    """Return the size of a model's weights as loaded; 0 if unknown, as for one that is not downloaded."""
    if source is None:
        return 0.0
    try:
        folder = local_folder(source)
        sizes = [] if folder is None else [file.stat().st_size for file in folder.glob("*.safetensors")]
    except (OSError, WinaError):  # the job reports it
        return 0.0
    return float(sum(sizes) * _WIDENED.get(source.dtype, 1))


def _memory() -> tuple[float, float]:
    """Return available and total bytes, of this control group where it has a limit."""
    memory = psutil.virtual_memory()
    free, total = float(memory.available), float(memory.total)
    try:
        limit = float((_CGROUP / "memory.max").read_text())
        used = float((_CGROUP / "memory.current").read_text()) - _reclaimable()
    except (OSError, ValueError):  # no limit, or another system
        return free, total
    return min(free, limit - used), min(total, limit)


def _reclaimable() -> float:
    """Return the bytes of this control group's page cache that the kernel frees when memory is needed."""
    statistics = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
    return float(statistics.get("inactive_file", 0))


def _gpu_free(device: str) -> float:
    """Return the free bytes of a CUDA device; 0 if the driver does not answer."""
    query = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits", "-i", device]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=2.0, check=True)
        return float(answer.stdout.split()[0]) * 2**20
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return 0.0
