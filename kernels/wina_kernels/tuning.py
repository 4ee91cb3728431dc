"""The fastest way of computing, measured once and cached on disk.

A measurement holds for one device, the libraries' versions and the number of threads, which name the file. Removing the
file or the folder only repeats the measurement. The processor and the packages' versions are the conditions of other
measurements, too.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import platformdirs
import torch
from torch import Tensor

USUAL_SPARSITY = 0.5
"""Fraction of the inputs that a threshold probably drops, for the choice of a kernel."""
_PACKAGES = ("torch", "triton")
_REPETITIONS = 5
_CLEARLY = 0.95
_CACHE = 1 << 26
"""Bytes written between two calls, so that a processor's caches are as cold as when a model decodes."""
_HEAD_START = 1_000_000
"""Cycles, about half a millisecond."""
_MEMORY: dict[Path, dict[str, str]] = {}


def fastest(device: torch.device, case: str, ways: Callable[[], Mapping[str, Callable[[], object]]]) -> str:
    """Return the name of the fastest of `ways` in this case, cached or measured.

    The first one is chosen unless another is clearly faster.

    The decision is permanent, so that later runs take the same way with the same rounding.
    """
    file = _file(device, torch.get_num_threads())
    if file not in _MEMORY:
        _MEMORY[file] = _read(file)
    choices = _MEMORY[file]
    if case not in choices:
        times = _seconds(ways(), device)
        first, best = next(iter(times)), min(times, key=times.__getitem__)
        choices[case] = best if times[best] < _CLEARLY * times[first] else first
        choices |= _read(file)  # what another process has decided meanwhile stays so
        _write(file, choices)
    return choices[case]


def folder() -> Path:
    """Return `kernels` in WINA_HOME's or the platform's cache folder."""
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


def _seconds(ways: Mapping[str, Callable[[], object]], device: torch.device) -> dict[str, float]:
    """Return the least time of some calls of each way, after one that compiles."""
    if device.type != "cuda":
        return _least(ways, functools.partial(_wall_seconds, torch.zeros(_CACHE, dtype=torch.uint8)))
    with torch.cuda.device(device):
        return _least(ways, device_seconds)


def _least(
    ways: Mapping[str, Callable[[], object]], seconds: Callable[[Callable[[], object]], float]
) -> dict[str, float]:
    times = {}
    for name, way in ways.items():
        way()
        # The least, since other work on the machine only lengthens a call.
        times[name] = min(seconds(way) for _ in range(_REPETITIONS))
    return times


def _wall_seconds(scratch: Tensor, way: Callable[[], object]) -> float:
    """Return a call's time after `scratch` was written, always the same memory: new memory takes ten times as long."""
    scratch.fill_(1)
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


def device_seconds(way: Callable[[], object]) -> float:
    """Return a call's time on the current CUDA device, with a cold cache.

    The device is kept busy until the call is queued, because a launch takes longer than many products.
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
    """Return the cached choices; nothing if the file is damaged or unreadable."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    entries = content.items() if isinstance(content, dict) else ()
    return {case: name for case, name in entries if isinstance(name, str)}


def _write(file: Path, choices: dict[str, str]) -> None:
    """Replace the file; if it cannot be written, choices last as long as the process."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps(choices, indent=1))


def write_atomically(file: Path, text: str) -> None:
    """Write a text under a temporary name beside the file, then rename; raise OSError on failure."""
    # With the process's id, because several processes may write the same file.
    temporary = file.with_suffix(f".{os.getpid()}.part")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(file)
    finally:
        with contextlib.suppress(OSError):  # renamed already, or the first error is the one to report
            temporary.unlink()


def processor() -> str:
    """Return the processor's name, or its architecture if the system does not report the name."""
    with contextlib.suppress(OSError):  # not Linux
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def processor_and_threads() -> str:
    return f"{processor()}, {os.cpu_count()} threads"


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed, in the given order."""
    installed = {}
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            installed[package] = version(package)
    return installed
