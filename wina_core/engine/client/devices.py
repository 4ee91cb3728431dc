"""The number of engines for this machine, and the device of each; accelerators are listed without torch."""

import os
import re
import subprocess
from functools import cache

_PATIENCE_SECONDS = 5.0
"""Timeout of the driver's tool that lists the GPUs; one that hangs must not keep the window from opening."""
BATCH_NICENESS = 5
"""Niceness of engines beside a light one, which then gets three times their share of a busy processor."""


def engine_count() -> int:
    """Return one engine for each visible CUDA device, at least one."""
    return max(1, len(visible_devices()))


def visible_devices() -> tuple[str, ...]:
    """Return the CUDA devices that child processes see, as CUDA_VISIBLE_DEVICES names them."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return chosen_devices(chosen)
    return _driver_devices()


@cache  # the driver takes up to seconds to answer
def _driver_devices() -> tuple[str, ...]:
    try:
        listing = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):  # no driver, or one that does not answer
        return ()
    return listed_devices(listing.stdout)


def chosen_devices(value: str) -> tuple[str, ...]:
    """Return the devices of a CUDA_VISIBLE_DEVICES, up to the first entry that is none ("-1")."""
    found: list[str] = []
    for name in (part.strip() for part in value.split(",")):
        if not name or name.startswith("-"):
            break
        found.append(name)
    return tuple(found)


def listed_devices(listing: str) -> tuple[str, ...]:
    """Return the identifiers in the output of `nvidia-smi -L`; MIG instances replace the GPU that they split."""
    found: list[str] = []
    for line in listing.splitlines():
        match = re.search(r"UUID: ((?:GPU|MIG)-[^)\s]+)", line)
        if match is None:
            continue
        if match[1].startswith("MIG-") and found and found[-1].startswith("GPU-"):
            found.pop()
        found.append(match[1])
    return tuple(found)


def engine_environments(engines: int) -> tuple[dict[str, str], ...]:
    """Return the environment variables of each engine: its own device, or its share of the processor's threads."""
    if engines == 1:
        return ({},)
    devices = visible_devices()
    if devices:
        return tuple({"CUDA_VISIBLE_DEVICES": devices[place % len(devices)]} for place in range(engines))
    threads = max(1, _threads() // engines)
    return tuple({"OMP_NUM_THREADS": str(threads)} for _ in range(engines))


def light_environment() -> dict[str, str]:
    """Return the environment variables of an engine beside the others: the last device, half of the threads.

    It prepares at its start what its first job would wait for (`WINA_ENGINE_WARM`).
    """
    devices = visible_devices()
    place = {"CUDA_VISIBLE_DEVICES": devices[-1]} if devices else {}
    return {**place, "OMP_NUM_THREADS": str(max(1, _threads() // 2)), "WINA_ENGINE_WARM": "1"}


def behind(environment: dict[str, str]) -> dict[str, str]:
    """Return an engine's environment with a lower priority, behind the window and the light engine."""
    return {**environment, "WINA_ENGINE_NICE": str(BATCH_NICENESS)}


def _threads() -> int:
    """Return the threads that one engine would use."""
    requested = os.environ.get("OMP_NUM_THREADS", "")
    if requested.isdecimal():
        return int(requested)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
