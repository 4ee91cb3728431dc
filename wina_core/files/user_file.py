"""Reading of files that are not the program's own: regular files only, and each kind up to a size.

The API key of a server comes from a file or the environment: everyone on the machine can see a command line.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import Final

from wina_core.errors import WinaError

_MIB = 2**20
LIMITS: Final = {
    "key": _MIB,
    "plan": 4 * _MIB,  # over ten times the plan of a model with a thousand layers
    "study": 4 * _MIB,  # likewise far above any real one; it is parsed whole
    "file of shares": 4 * _MIB,
    "file of roles": 4 * _MIB,
    "file of machines": 4 * _MIB,
    "settings file": 16 * _MIB,  # a plan and ten prompts
    "file of a model": 256 * _MIB,  # several times the largest published tokenizer.json; the libraries parse it whole
    "file of results": 16 * _MIB,  # llama-bench's repetitions of thousands of tests; it is parsed whole
    "text": 1024 * _MIB,  # the first 16 million characters are used, and all of it is hashed, in about a second
    "task file": 64 * _MIB,  # parsed whole
    "data file": 1024 * _MIB,  # held in memory as Python's objects, ten times as large
    "weight file": 2**20 * _MIB,  # several times the largest published model in one file
    "file of matrices": 2**20 * _MIB,  # two of each layer in 64 bits are larger than the weights
    "calibration": 8192 * _MIB,  # several times that of a model with 70 billion weights
    "reference": 8256 * _MIB,  # the largest that is made, of 8 GiB of log-probabilities
    "results database": 65536 * _MIB,  # it is read by pages; a hundred thousand runs need about one GiB
    "cache": 256 * _MIB,  # a search's whole table, parsed at once
}
"""Most bytes of a file of each kind, with the reason."""


def read_file(path: Path, kind: str) -> bytes:
    """Return the content of a file of a kind in LIMITS; raise WinaError if it is refused."""
    with open_file(path, kind) as file:
        content = file.read(LIMITS[kind] + 1)
    _check_size(path, kind, len(content))  # it may have grown since it was opened
    return content


@contextmanager
def open_file(path: Path, kind: str) -> Iterator[BufferedReader]:
    """Open a file of a kind in LIMITS for reading; raise WinaError as `read_file`, also for an OSError in the block.

    Pipes, devices and files of the kernel are refused without being opened: they can wait for ever, never end, or act
    on being read. What was opened is checked again, since a name can change its file meanwhile.
    """
    check_file(path, kind)
    try:
        # Should it be a pipe by now, opening must not wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as file:
            _check(path, kind, os.fstat(descriptor))
            yield file
    except OSError as error:
        raise WinaError(_unreadable(path, kind, error)) from error


def check_file(path: Path, kind: str) -> None:
    """Raise the WinaError of `open_file` for a file that a library will open by its name."""
    try:
        _check(path, kind, path.stat())
    except (OSError, ValueError) as error:  # a ValueError for a name that no file can have
        raise WinaError(_unreadable(path, kind, error)) from error


def is_ordinary(status: os.stat_result) -> bool:
    """Return whether this is a file or folder on a disk: no pipe, device or socket, and none of the kernel's files."""
    ordinary = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return ordinary and status.st_dev not in _kernel_devices()


@cache
def _kernel_devices() -> frozenset[int]:
    # The kernel's files claim to be regular, but reading one may never end or may act.
    return frozenset(os.stat(folder).st_dev for folder in ("/proc", "/sys") if os.path.ismount(folder))


def _check(path: Path, kind: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise WinaError(f"The {kind} {path} is a folder; choose a file.")
    if not is_ordinary(status):
        raise WinaError(f"The {kind} {path} is a pipe, a device or the like, which is not opened; choose a file.")
    _check_size(path, kind, status.st_size)


def _check_size(path: Path, kind: str, size: int) -> None:
    if size > LIMITS[kind]:
        limit = LIMITS[kind] // _MIB
        raise WinaError(f"The file {path} is larger than {limit} MiB, too large for a {kind}; choose another file.")


def _unreadable(path: Path, kind: str, error: OSError | ValueError) -> str:
    return f"The {kind} {path} cannot be read ({getattr(error, 'strerror', None) or error}); check the path."


KEY_VARIABLE = "WINA_API_KEY"
"""Environment variable of the key."""
LEAST_KEY = 16
"""Least characters of a key."""


def read_key(file: Path | None) -> str | None:
    """Return the key of a file or else of the environment, or None; raise WinaError for one that is easy to guess."""
    text = os.environ.get(KEY_VARIABLE) if file is None else read_file(file, "key").decode(errors="replace")
    if text is None:
        return None
    key, origin = text.strip(), KEY_VARIABLE if file is None else str(file)
    if len(key) < LEAST_KEY or not (key.isascii() and key.isprintable()) or " " in key:
        raise WinaError(
            f"The API key in {origin} must be one line of at least {LEAST_KEY} ASCII characters without spaces; "
            "`openssl rand -hex 24` makes one."
        )
    return key
