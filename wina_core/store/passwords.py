"""Passwords of database servers: from the URL, the environment, a password file or the system's keyring."""

import logging
import os
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from sqlalchemy import URL

from wina_core.files.addresses import SECRETS

VARIABLE = "WINA_DATABASE_PASSWORD"
SERVICE = "wina-workbench"
"""Name of the service in the keyring; the user's name there is `account`."""
_KEYRING_SECONDS = 10.0
"""Longest wait for the keyring, which may ask the user to unlock it."""

_log = logging.getLogger(__name__)


def account(url: URL) -> str:
    """Return the name of a database in the keyring: "anna@db.example.org/results"."""
    port = f":{url.port}" if url.port else ""
    return f"{url.username or ''}@{url.host or ''}{port}/{url.database or ''}"


def without_password(url: URL) -> URL:
    """Return a URL without its passwords."""
    query = {name: value for name, value in url.query.items() if name not in SECRETS}
    return URL.create(url.drivername, url.username, None, url.host, url.port, url.database, query)


class PasswordSource:
    """The passwords of one database. Nothing is stored; libpq itself reads PGPASSWORD and PGPASSFILE."""

    def __init__(self, url: URL) -> None:
        self._account = account(url)
        self._asked = False

    def connect(self, connect: Callable[..., Any], parameters: dict[str, Any]) -> Any:
        """Connect; ask the keyring only if the server wants a password and none is given."""
        password = parameters.get("password") or os.environ.get(VARIABLE)
        password = password or (_from_keyring(self._account) if self._asked else None)
        known = {"password": password} if password else {}
        try:
            return connect(**parameters | known)
        except Exception as error:
            wants = getattr(getattr(error, "pgconn", None), "needs_password", False)
            if password or not wants or (found := _from_keyring(self._account)) is None:
                raise
            self._asked = True
        return connect(**parameters | {"password": found})


@cache
def _from_keyring(name: str) -> str | None:
    """Return a password of the keyring; None without one. It is asked once: it may fail or hang."""
    found: list[str | None] = []

    def ask() -> None:
        try:
            import keyring

            found.append(keyring.get_password(SERVICE, name))
        except Exception as error:  # each system's keyring has errors of its own
            _log.debug("The keyring gives no password: %s", type(error).__name__)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_KEYRING_SECONDS)
    return found[0] if found else None
