"""Conditions of measurements here: the processor and the versions of packages."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def processor() -> str:
    """Return the processor's name, or its architecture where the system does not tell the name."""
    with contextlib.suppress(OSError):  # not Linux
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def processor_and_threads() -> str:
    """Return the name of this computer's processor with its number of threads."""
    return f"{processor()}, {os.cpu_count()} threads"


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed, in the given order."""
    found = {}
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
