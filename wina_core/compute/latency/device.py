"""The device of a sweep: its name, environment, caches and memory."""

import os
from pathlib import Path

import torch
import wina_kernels
from wina_kernels import backends
from wina_kernels.tuning import processor, versions

from wina_core.compute.models.loading import torch_device
from wina_core.compute.session.environment import environment
from wina_core.errors import WinaError
from wina_core.files.hardware import free_memory
from wina_core.records import Environment
from wina_core.specs.latency import DISPATCHED, BackendName, LatencyDType

_UNKNOWN_CACHE = 64 * 2**20
"""Assumed last-level cache if the platform reports none: more than most processors have."""


def device_of(name: str) -> torch.device:
    """Return the device of that name, with "auto" the accelerator if there is one; raise WinaError if it does not
    exist."""
    device = torch_device(name)
    if device.type not in ("cpu", "cuda"):
        raise WinaError(f'Latency is measured on "cpu" or "cuda", not on "{name}".')
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise WinaError(f'There is no device "{name}": this machine has {torch.cuda.device_count()} CUDA devices.')
    return device


def environment_on(device: torch.device) -> Environment:
    """Return the environment of timings: the hardware, the threads in use, and the versions."""
    package_versions = {**environment().versions, **versions(["triton"])}
    if device.type == "cuda":
        hardware = torch.cuda.get_device_name(device)
        package_versions["cuda"] = str(torch.version.cuda)
    else:
        hardware = f"{processor()}, {torch.get_num_threads()} of {os.cpu_count()} threads"
    return Environment(device=device.type, hardware=hardware, versions=package_versions)


def timing_environments() -> tuple[Environment, ...]:
    """Return the environments of timings on this machine, that of the device "auto" first."""
    devices = dict.fromkeys((device_of("auto").type, "cpu"))
    return tuple(environment_on(torch.device(name)) for name in devices if name in ("cpu", "cuda"))


def cache_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    # The largest of cpu0's caches is the last level.
    sizes = [_size(file.read_text()) for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max(sizes, default=_UNKNOWN_CACHE)


def _size(text: str) -> int:
    """Return the bytes of a Linux size such as 32768K."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    number, unit = text.strip()[:-1], text.strip()[-1]
    return int(number) * units[unit]


def free_bytes(device: torch.device) -> int:
    """Return available memory, including PyTorch's cached memory."""
    if device.type == "cuda":
        # PyTorch keeps the memory of freed tensors for later ones.
        reusable = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + reusable
    return int(free_memory())


def check_dtype(dtype: LatencyDType, device: torch.device) -> None:
    """Raise WinaError if the device cannot compute in the dtype."""
    too_old = device.type == "cuda" and dtype == "bfloat16" and torch.cuda.get_device_capability(device) < (8, 0)
    if too_old and torch.version.hip is None:
        raise WinaError(
            f"{torch.cuda.get_device_name(device)} is too old to compute in bfloat16; choose float16 or float32."
        )


def backend_of(name: str, device: torch.device) -> tuple[BackendName, backends.Backend]:
    """Return the backend of that name, or for "auto" the fastest that works; raise WinaError if it does not work
    here."""
    if name == DISPATCHED:
        return DISPATCHED, wina_kernels
    usable = backends.usable(device)
    if name != "auto" and name not in usable:
        choices = ", ".join(("auto", DISPATCHED, *usable))
        raise WinaError(f'The backend "{name}" does not work on "{device.type}"; choose one of {choices}.')
    failures = []
    for candidate in usable if name == "auto" else (name,):
        try:
            return candidate, backends.load(candidate)  # type: ignore[return-value]  # BACKENDS are BackendNames
        except ImportError as error:
            failures.append(f'The backend "{candidate}" cannot be loaded here ({error}); choose another one.')
    raise WinaError(failures[0])
