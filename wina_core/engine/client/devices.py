"""The number of engines for this machine, and the device of each."""

import os

from wina_core.files.hardware import visible_devices

BATCH_NICENESS = 5
"""Niceness of engines beside a light one, which then gets three times their share of a busy processor."""


def engine_count() -> int:
    """Return one engine for each visible CUDA device, at least one."""
    return max(1, len(visible_devices()))


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
