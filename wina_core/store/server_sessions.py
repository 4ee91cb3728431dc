"""Sessions of programs that use a PostgreSQL database.

A session is an advisory lock that its own connection holds. The server releases it when the connection ends, however
the program or its machine dies, so every machine can tell living sessions from dead ones. The same connection listens
to what other programs write. After a restart of the server a thread takes the lock again.
"""

import logging
import secrets
import select
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from sqlalchemy import URL, Connection
from sqlalchemy.exc import DBAPIError

from wina_core.errors import WinaError
from wina_core.store.connection import explained
from wina_core.store.postgres import CHANNEL, STARTING, WAIT_SECONDS, open_postgres

GRACE_SECONDS = 3.0
"""Time after the server's start in which no session counts as dead: all take their locks again."""
_RETRY_SECONDS = 0.5
"""Interval of the attempts to connect again."""
_LIVING = """
SELECT classid::bigint * 4294967296 + objid::bigint FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

_log = logging.getLogger(__name__)


class ServerSessions:
    """The sessions of one database, and this process's own."""

    def __init__(self, url: URL) -> None:
        self._url = url
        self.scope = ""
        """Beginning of the names of sessions that can be checked from here: all."""
        self._engine = open_postgres(url, pooled=False)
        self.starting = _ServerLock(self)
        """Held while a store opens: one at a time makes, upgrades and tidies the database."""
        self._own: _OwnSession | None = None

    def connect(self) -> Connection:
        """Return a connection of its own, without transactions."""
        return self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def living(self) -> tuple[str, ...] | None:
        """Return the names of the open sessions; None while the server has just started and nobody can tell."""
        with explained(self._url), self._engine.connect() as connection:
            age = connection.exec_driver_sql("SELECT extract(epoch FROM now() - pg_postmaster_start_time())::float8")
            if age.scalar_one() < GRACE_SECONDS:
                return None
            return tuple(_name(key) for key in connection.exec_driver_sql(_LIVING).scalars())

    def begin(self) -> str:
        """Open this store's own session and return its name."""
        self._own = _OwnSession(self)
        return self._own.name

    def end(self) -> None:
        """Close this store's own session."""
        if self._own is not None:
            self._own.end()
            self._own = None

    def has_news(self) -> bool:
        """Return whether another program wrote since the last call."""
        return self._own is not None and self._own.take_news()


class _ServerLock:
    """An advisory lock on a connection of its own."""

    def __init__(self, sessions: ServerSessions) -> None:
        self._sessions = sessions
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        connection = self._sessions.connect()
        try:
            connection.exec_driver_sql(f"SET lock_timeout = {1000 * WAIT_SECONDS:.0f}")
            connection.exec_driver_sql(f"SELECT pg_advisory_lock({STARTING})")
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _OwnSession:
    """A session with the thread that keeps it alive."""

    def __init__(self, sessions: ServerSessions) -> None:
        self._sessions = sessions
        self._key = secrets.randbits(62)
        self.name = _name(self._key)
        self._news = threading.Event()
        self._ended = threading.Event()
        self._waker, self._wakened = socket.socketpair()
        self._connection = self._take()
        self._thread = threading.Thread(target=self._keep, name="database session", daemon=True)
        self._thread.start()

    def take_news(self) -> bool:
        """Return whether another program wrote since the last call."""
        found = self._news.is_set()
        self._news.clear()
        return found

    def end(self) -> None:
        """End the thread and release the lock."""
        self._ended.set()
        self._waker.close()
        self._thread.join()
        self._wakened.close()

    def _take(self) -> Connection:
        connection = self._sessions.connect()
        _driver(connection).add_notify_handler(self._hear)
        # Shared, since the server may still hold the lock of a lost connection.
        connection.exec_driver_sql(f"SELECT pg_advisory_lock_shared({self._key})")
        connection.exec_driver_sql(f"LISTEN {CHANNEL}")
        return connection

    def _hear(self, notification: Any) -> None:
        if notification.payload != self.name:
            self._news.set()

    def _keep(self) -> None:
        """Hear other programs, and connect again when the connection is lost."""
        while not self._ended.is_set():
            select.select([_driver(self._connection), self._wakened], [], [])
            try:
                if not self._ended.is_set():
                    self._connection.exec_driver_sql("SELECT 1")  # the notifications come with the answer
            except DBAPIError:
                self._renew()
        self._connection.close()

    def _renew(self) -> None:
        with suppress(DBAPIError):
            self._connection.close()
        _log.warning("The connection to the results database is lost; it is opened again.")
        while not self._ended.wait(_RETRY_SECONDS):
            try:
                self._connection = self._take()
            except (DBAPIError, WinaError):
                continue
            self._news.set()  # nobody heard what others wrote meanwhile
            return


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection


def _name(key: int) -> str:
    return f"{key:016x}"
