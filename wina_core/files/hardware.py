"""The machine of this process: its memory, within control groups and what a user allows, room on its disks, and the
accelerators and units of the processor that may be used, listed without torch.
"""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from wina_core.errors import WinaError

MEMORY_VARIABLE = "WINA_MEMORY"
"""Environment variable with the memory that computing may take, such as 8GB."""
_UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_CGROUP = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def parse_bytes(text: str) -> float:
    """Return the bytes of a size such as 8GB, 7.5G or 8GiB; raise WinaError for another text."""
    match = re.fullmatch(r"([\d.]+)\s*([KMGT]?I?)B?", text.strip().upper())
    try:
        size = float(match[1]) * _UNITS[match[2]] if match else 0.0
    except (ValueError, KeyError):
        size = 0.0
    if size <= 0:
        raise WinaError(f'"{text}" is no size of memory; give a number and a unit, such as 8GB.')
    return size


def allow_memory(size: str | None) -> None:
    """Limit the memory of this process and of its engines; None leaves it. Raise WinaError for an invalid size."""
    if size is not None:
        parse_bytes(size)
        os.environ[MEMORY_VARIABLE] = size  # engines are child processes, which inherit it


def memory_limit() -> float | None:
    """Return the bytes that the user allows (`MEMORY_VARIABLE`), None without a limit; WinaError for another text."""
    named = os.environ.get(MEMORY_VARIABLE)
    return parse_bytes(named) if named else None


def free_memory() -> float:
    """Return the bytes that this process may take: those available, or fewer if the user allows less."""
    import psutil  # type: ignore[import-untyped]  # 20 ms, which the window's start does not have

    free, limit = machine_memory()[0], memory_limit()
    # The limit is on all that this process holds, and it holds some already.
    return free if limit is None else max(0.0, min(free, limit - psutil.Process().memory_info().rss))


def machine_memory() -> tuple[float, float]:
    """Return available and total bytes: each the least among the machine and the control groups around this process."""
    import psutil  # as above

    memory = psutil.virtual_memory()
    limits = [(float(memory.available), float(memory.total)), *_group_limits()]
    return min(free for free, _ in limits), min(total for _, total in limits)


def _group_limits() -> Iterator[tuple[float, float]]:
    """Yield free and total bytes of each control group around this process that has a limit, of version 1 or 2."""
    try:
        lines = _MEMBERSHIP.read_text().splitlines()
    except OSError:  # another system
        return
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if not controllers:
            base, files = _CGROUP, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base, files = _CGROUP / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = base / path.lstrip("/")  # absent in a container that sees its own group as the root
        # The limit of every group around this one binds, too.
        for folder in (group, *group.parents):
            if folder.is_relative_to(base):
                yield from _limit(folder, *files)


def _limit(folder: Path, limit: str, usage: str, cache: str) -> Iterator[tuple[float, float]]:
    """Yield free and total bytes of a control group, its reclaimable page cache as free; nothing without a limit."""
    try:
        most, used = float((folder / limit).read_text()), float((folder / usage).read_text())
        statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return
    yield most - used + float(statistics.get(cache, 0)), most


OTHER_DISK = "free some space, or set WINA_HOME to a folder on another disk"
"""Advice of `check_room` for what is written to the cache."""


def gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB"


def file_size(size: float) -> str:
    return gigabytes(size) if size >= 1e9 else f"{size / 1e6:.1f} MB"


def free_on_disk(folder: Path) -> int:
    """Return the bytes left for a folder, which need not exist."""
    return shutil.disk_usage(next(parent for parent in (folder, *folder.parents) if parent.exists())).free


def check_room(folder: Path, size: float, subject: str, advice: str) -> None:
    """Raise WinaError if a folder's disk has no room for `subject`, such as "The weights take", of so many bytes."""
    free = free_on_disk(folder)
    if size > free:
        raise WinaError(f"{subject} {gigabytes(size)}, but {folder} has {gigabytes(free)} left; {advice}.")


_PATIENCE_SECONDS = 5.0
"""Timeout of a tool that lists devices; one that hangs must not keep the window from opening."""
BF16_VARIABLE = "WINA_BF16"
"""Environment variable with "yes" or "no": whether the processor has units for bfloat16; it overrides the system."""
_CPU = Path("/proc/cpuinfo")
_BF16_FLAGS = {"flags": {"avx512_bf16", "amx_bf16"}, "Features": {"bf16"}}
"""Flags of processors with units for bfloat16, by the name of the line: of x86 and of Arm."""


@cache  # the processor does not change
def has_bf16_units() -> bool | None:
    """Return whether the processor has units for bfloat16 products; None if the system does not say.

    `BF16_VARIABLE` comes first. Without units, PyTorch's products of bfloat16 matrices are a hundred times slower than
    those of float32.
    """
    if (named := os.environ.get(BF16_VARIABLE)) in ("yes", "no"):
        return named == "yes"
    if platform.system() == "Darwin":
        return _output("sysctl", "-n", "hw.optional.arm.FEAT_BF16").strip() == "1"
    try:
        return bf16_in(_CPU.read_text(encoding="utf-8", errors="replace"))
    except OSError:  # another system
        return None


def bf16_in(description: str) -> bool | None:
    """Return whether the text of /proc/cpuinfo names units for bfloat16; None if it has no line of flags."""
    for line in description.splitlines():
        name, _, flags = line.partition(":")
        if (units := _BF16_FLAGS.get(name.strip())) is not None:
            return bool(units & set(flags.split()))
    return None


def visible_devices() -> tuple[str, ...]:
    """Return the CUDA devices that child processes see, as CUDA_VISIBLE_DEVICES names them."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return chosen_devices(chosen)
    return _driver_devices()


@cache  # the driver takes up to seconds to answer
def _driver_devices() -> tuple[str, ...]:
    return listed_devices(_output("nvidia-smi", "-L"))


def chosen_devices(value: str) -> tuple[str, ...]:
    """Return the devices of a CUDA_VISIBLE_DEVICES, up to the first entry that is none ("-1")."""
    devices: list[str] = []
    for name in (entry.strip() for entry in value.split(",")):
        if not name or name.startswith("-"):
            break
        devices.append(name)
    return tuple(devices)


def listed_devices(listing: str) -> tuple[str, ...]:
    """Return the identifiers in the output of `nvidia-smi -L`; MIG instances replace the GPU that they split."""
    devices: list[str] = []
    for line in listing.splitlines():
        match = re.search(r"UUID: ((?:GPU|MIG)-[^)\s]+)", line)
        if match is None:
            continue
        if match[1].startswith("MIG-") and devices and devices[-1].startswith("GPU-"):
            devices.pop()
        devices.append(match[1])
    return tuple(devices)


def _output(*command: str) -> str:
    """Return the output of a tool; empty if it is missing, fails or does not answer."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
