"""Bounded reading of small files, such as plans and studies."""

from pathlib import Path

from wina_core.errors import WinaError

LARGEST_FILE = 4 * 2**20
"""Far above any real plan or study: over ten times the plan of a model with a thousand layers."""


def read_small(path: Path, kind: str) -> bytes:
    """Return the content of a file, for example of kind "plan"; WinaError if it is unreadable or above 4 MiB."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # a ValueError for a name that no file can have
        cause = getattr(error, "strerror", None) or error
        raise WinaError(f"The {kind} {path} cannot be read ({cause}); check the path.") from error
    if len(content) > LARGEST_FILE:
        size = LARGEST_FILE // 2**20
        raise WinaError(f"The file {path} is larger than {size} MiB, too large for a {kind}; choose another file.")
    return content
