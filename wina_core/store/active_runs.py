"""Runs that wait or are being computed, and who computes."""

import getpass
import socket
from collections.abc import Iterable
from functools import cache

from sqlalchemy import ColumnElement

from wina_core.records import ACTIVE
from wina_core.store.among import among
from wina_core.store.tables import Run


@cache
def whoami() -> dict[str, str]:
    """Return the columns of `tables.Run` on who computes, and on which computer."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in some containers
        user = ""
    return {"user": user, "host": socket.gethostname()}


def active(runs: Iterable[str]) -> ColumnElement[bool]:
    """Return the condition on the queued and running ones of the runs with these hashes."""
    return among(Run.hash, runs) & Run.status.in_(ACTIVE)
