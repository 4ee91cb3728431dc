"""Sessions of this computer on a machine: the lowest free number of each bridge, under which it finds its engine again.

A bridge that died leaves its number, and with it its engine and what that has computed, to the next one.
"""

import hashlib
import secrets
from itertools import count

from wina_core.files.locks import FileLock
from wina_core.files.paths import data_folder
from wina_core.files.tables import write_atomically


class Slot:
    """A session that this process holds until it ends."""

    def __init__(self, machine: str) -> None:
        """Take the first session of a machine that no other process holds."""
        folder = data_folder() / "machines"
        folder.mkdir(exist_ok=True)
        for number in count():
            self._lock = FileLock(folder / f"{machine}-{number}.lock")
            if self._lock.acquire():
                break
        self.session = f"{_installation()}-{hashlib.sha256(machine.encode()).hexdigest()[:8]}-{number}"
        """Name of the session on the machine."""


def _installation() -> str:
    """Return the name of this installation of the program, made at the first call."""
    file = data_folder() / "machines" / "installation"
    with FileLock(file.with_suffix(".lock")):
        if not file.is_file():
            write_atomically(file, secrets.token_hex(8).encode())
        return file.read_text()
