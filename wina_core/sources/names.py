"""Names of files and models without the folders of their users."""

import re
from pathlib import PurePosixPath, PureWindowsPath


def last_part(name: str) -> str:
    """Return a path without its folders; any other name as it is."""
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1] if is_folder(name) else name


def is_folder(location: str) -> bool:
    """Return True for a path on a machine, POSIX or Windows."""
    absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).is_absolute()
    return absolute or location.startswith((".", "~")) or "\\" in location
