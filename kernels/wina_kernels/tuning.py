"""Which way of computing was the fastest here, measured once and kept on disk.

A measurement holds for one device, the libraries' versions and the number of threads: they name the file. Removing the
file, or the whole folder, only means that it is measured again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import platformdirs
import torch

from wina_kernels.machine import processor, versions

_PACKAGES = ("torch", "numba", "triton")
_REPETITIONS = 5
_CLEARLY = 0.95
_CACHE = 1 << 26
"""Bytes that are written between two calls, so that a processor's caches are as cold as when a model decodes."""
_HEAD_START = 1_000_000
"""Cycles, half a millisecond or so."""
_MEMORY: dict[Path, dict[str, str]] = {}


def fastest(device: torch.device, case: str, ways: Callable[[], Mapping[str, Callable[[], object]]]) -> str:
    """The name of the one of `ways` that takes the least time in this case: remembered, or measured now. Another than
    the first must be clearly faster.

    It is decided once and kept, so that the same way, and with it the same rounding, is taken in every later run.
    """
    file = _file(device, torch.get_num_threads())
    if file not in _MEMORY:
        _MEMORY[file] = _read(file)
    known = _MEMORY[file]
    if case not in known:
        times = {name: _seconds(way, device) for name, way in ways().items()}
        first, best = next(iter(times)), min(times, key=times.__getitem__)
        known[case] = best if times[best] < _CLEARLY * times[first] else first
        known |= _read(file)  # what another process has decided meanwhile stays so
        _write(file, known)
    return known[case]


def folder() -> Path:
    """Where choices are kept: `kernels` in WINA_HOME's or the platform's cache folder."""
    home = os.environ.get("WINA_HOME")
    cache = Path(home) / "cache" if home else Path(platformdirs.user_cache_dir("wina-workbench", appauthor=False))
    return cache / "kernels"


@functools.cache
def _file(device: torch.device, threads: int) -> Path:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    installed = versions(_PACKAGES)
    packages = [f"{package} {installed.get(package, 'none')}" for package in _PACKAGES]
    facts = [device.type, name, *packages, f"{threads} threads"]
    return folder() / f"{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}.json"


def _seconds(way: Callable[[], object], device: torch.device) -> float:
    """The least time of some calls, after one that compiles."""
    way()
    if device.type != "cuda":
        return min(_wall_seconds(way) for _ in range(_REPETITIONS))
    with torch.cuda.device(device):
        return min(device_seconds(way) for _ in range(_REPETITIONS))


def _wall_seconds(way: Callable[[], object]) -> float:
    torch.zeros(_CACHE, dtype=torch.uint8)
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


def device_seconds(way: Callable[[], object]) -> float:
    """What a call takes the current CUDA device itself, with a cold cache.

    The device is kept busy until the call is queued, for launching takes the processor longer than many a product.
    """
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    torch.empty(2 * cache, dtype=torch.uint8, device="cuda").zero_()
    torch.cuda._sleep(_HEAD_START)  # type: ignore[no-untyped-call]
    start.record()
    way()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000


def _read(file: Path) -> dict[str, str]:
    """What is known; nothing of a file that is damaged or cannot be read."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    known = content.items() if isinstance(content, dict) else ()
    return {case: name for case, name in known if isinstance(name, str)}


def _write(file: Path, known: dict[str, str]) -> None:
    """Replaces the file at once; where nothing can be written, the choices last as long as the process."""
    temporary = file.with_suffix(f".{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(known, indent=1), encoding="utf-8")
        temporary.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
