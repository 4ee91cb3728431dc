"""Whole lines of a file that another process appends to."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from wina_core.errors import WinaError

LONGEST_LINE = 2**26
"""Most bytes of a line."""


def open_own(path: Path) -> BinaryIO:
    """Open a file to read. Raises WinaError for a link, a pipe or a device: others may write to a shared folder."""
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | flags), "rb")
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise WinaError("it is a link") from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise WinaError("it is no ordinary file")
    return file


def read_lines(path: Path, offset: int, budget: int) -> bytes:
    """Return whole lines from an offset on: as many as the budget of bytes takes, but at least one if there is one.

    Raises WinaError for a line of more than LONGEST_LINE bytes, and for a path that is no file of its own.
    """
    try:
        with open_own(path) as file:
            file.seek(offset)
            content = file.read(budget)
            if content and b"\n" not in content:
                content += file.readline(LONGEST_LINE - len(content))
                if len(content) >= LONGEST_LINE:
                    raise WinaError(f"a result has more than {LONGEST_LINE // 2**20} MiB")
    except FileNotFoundError:
        return b""
    return content[: content.rfind(b"\n") + 1]
