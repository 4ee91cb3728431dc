"""Room on a disk, asked for before something large is written."""

import shutil
from pathlib import Path

from wina_core.errors import WinaError

OTHER_DISK = "free some space, or set WINA_HOME to a folder on another disk"
"""Advice of `check_room` for what is written to the cache."""


def gigabytes(size: float) -> str:
    """Return a size such as "13.5 GB"."""
    return f"{size / 1e9:.1f} GB"


def file_size(size: float) -> str:
    """Return the size of files, in MB below 1 GB."""
    return gigabytes(size) if size >= 1e9 else f"{size / 1e6:.1f} MB"


def free_on_disk(folder: Path) -> int:
    """Return the bytes left for a folder, which need not exist."""
    return shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.exists())).free


def check_room(folder: Path, size: float, what: str, advice: str) -> None:
    """Raise WinaError if a folder's disk has no room for `what`, such as "The weights take", of so many bytes."""
    free = free_on_disk(folder)
    if size > free:
        raise WinaError(f"{what} {gigabytes(size)}, but {folder} has {gigabytes(free)} left; {advice}.")
