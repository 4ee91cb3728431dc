"""numba's compiler for this package's loops, with a cache on disk that belongs to all of its sources.

numba itself looks at the file of the cached function alone: one that calls a changed function of another file would
go on with the old one compiled in.
"""

import hashlib
import os
from functools import partial
from pathlib import Path

import numba

from wina_kernels.tuning import folder


def _sources() -> str:
    """A hash of every source file."""
    found = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _folder() -> Path:
    """Beside Python's own compiled files, for all who use this installation; where it is read-only, in the cache."""
    beside = Path(__file__).parent / "__pycache__"
    place = beside if os.access(beside if beside.exists() else beside.parent, os.W_OK) else folder()
    return place / f"compiled-{_sources()}"


numba.config.CACHE_DIR = str(_folder())  # before anything is decorated

njit = partial(numba.njit, cache=True, nogil=True, error_model="numpy")
"""Compiles without Python's lock; division by zero gives infinities."""
