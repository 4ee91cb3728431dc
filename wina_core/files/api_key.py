"""API key of a server, from a file or the environment: everyone on the machine can see a command line."""

import os
from pathlib import Path

from wina_core.errors import WinaError
from wina_core.files.user_file import read_file

KEY_VARIABLE = "WINA_API_KEY"
"""Environment variable of the key."""
LEAST_KEY = 16
"""Least characters of a key."""


def read_key(file: Path | None) -> str | None:
    """Return the key of a file or else of the environment, or None; raise WinaError for one that is easy to guess."""
    given = os.environ.get(KEY_VARIABLE) if file is None else read_file(file, "key").decode(errors="replace")
    if given is None:
        return None
    key, place = given.strip(), KEY_VARIABLE if file is None else str(file)
    if len(key) < LEAST_KEY or not (key.isascii() and key.isprintable()) or " " in key:
        raise WinaError(
            f"The API key in {place} must be one line of at least {LEAST_KEY} ASCII characters without spaces; "
            "`openssl rand -hex 24` makes one."
        )
    return key
