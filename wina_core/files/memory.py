"""Memory of this machine, of the control groups around this process, and what a user allows it."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from wina_core.errors import WinaError

MEMORY_VARIABLE = "WINA_MEMORY"
"""Environment variable with the memory that computing may take, such as 8GB."""
_UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_CGROUP = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def parse_bytes(text: str) -> float:
    """Return the bytes of a size such as 8GB, 7.5G or 8GiB; raise WinaError for another text."""
    found = re.fullmatch(r"([\d.]+)\s*([KMGT]?I?)B?", text.strip().upper())
    try:
        size = float(found[1]) * _UNITS[found[2]] if found else 0.0
    except (ValueError, KeyError):
        size = 0.0
    if size <= 0:
        raise WinaError(f'"{text}" is no size of memory; give a number and a unit, such as 8GB.')
    return size


def allow_memory(size: str | None) -> None:
    """Limit the memory of this process and of its engines; None leaves it. Raise WinaError for a text that is no
    size."""
    if size is not None:
        parse_bytes(size)
        os.environ[MEMORY_VARIABLE] = size


def memory_limit() -> float | None:
    """Return the bytes that the user allows (`MEMORY_VARIABLE`), None without a limit; WinaError for another text."""
    named = os.environ.get(MEMORY_VARIABLE)
    return parse_bytes(named) if named else None


def free_memory() -> float:
    """Return the bytes that this process may take: those available, or fewer if the user allows less."""
    import psutil  # type: ignore[import-untyped]  # 20 ms, which the window's start does not have

    free, limit = machine_memory()[0], memory_limit()
    return free if limit is None else max(0.0, min(free, limit - psutil.Process().memory_info().rss))


def machine_memory() -> tuple[float, float]:
    """Return available and total bytes, of the tightest control group around this process where one has a limit."""
    import psutil  # as above

    memory = psutil.virtual_memory()
    found = [(float(memory.available), float(memory.total)), *_group_limits()]
    return min(free for free, _ in found), min(total for _, total in found)


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
