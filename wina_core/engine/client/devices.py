"""How many engines this machine feeds, and what each may use. Light: accelerators are asked for without torch."""

import os
import re
import subprocess

_PATIENCE_SECONDS = 5.0
"""How long the driver's tool may take to list the GPUs; one that is stuck must not keep the window from opening."""


def engine_count() -> int:
    """One engine for each visible CUDA device, else one."""
    return max(1, len(visible_devices()))


def visible_devices() -> tuple[str, ...]:
    """The CUDA devices that processes started from here see, as CUDA_VISIBLE_DEVICES names them."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return chosen_devices(chosen)
    try:
        listing = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):  # no driver, or one that does not answer
        return ()
    return listed_devices(listing.stdout)


def chosen_devices(value: str) -> tuple[str, ...]:
    """The devices of a CUDA_VISIBLE_DEVICES, which ends at the first entry that is none ("-1")."""
    found: list[str] = []
    for name in (part.strip() for part in value.split(",")):
        if not name or name.startswith("-"):
            break
        found.append(name)
    return tuple(found)


def listed_devices(listing: str) -> tuple[str, ...]:
    """The identifiers in what `nvidia-smi -L` prints; a GPU that is split stands for its parts."""
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
    """Environment variables of each of so many engines: its own device, or its share of the processor's threads."""
    if engines == 1:
        return ({},)
    devices = visible_devices()
    if devices:
        return tuple({"CUDA_VISIBLE_DEVICES": devices[place % len(devices)]} for place in range(engines))
    threads = max(1, _threads() // engines)
    return tuple({"OMP_NUM_THREADS": str(threads)} for _ in range(engines))


def _threads() -> int:
    """Threads that one engine would use."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal():
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
