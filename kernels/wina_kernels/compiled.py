"""numba's compiler for this package's loops, with a disk cache that depends on all sources.

numba checks only the file of the cached function: a caller of a changed function in another file would keep the old
one.
"""

import hashlib
import os
from functools import partial
from pathlib import Path

import numba

from wina_kernels.tuning import folder


def _sources() -> str:
    found = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _folder() -> Path:
    """Return a folder beside Python's compiled files, or in the cache if that is read-only."""
    beside = Path(__file__).parent / "__pycache__"
    place = beside if os.access(beside if beside.exists() else beside.parent, os.W_OK) else folder()
    return place / f"compiled-{_sources()}"


numba.config.CACHE_DIR = str(_folder())  # before anything is decorated

njit = partial(numba.njit, cache=True, nogil=True, error_model="numpy")
"""Compiler that releases Python's lock; division by zero gives infinities."""
