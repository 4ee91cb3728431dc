"""Connections to PostgreSQL: one writer at a time as in SQLite, readers with one snapshot, and texts without NUL."""

import os
from functools import cache
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, text

from wina_core.errors import WinaError
from wina_core.files.paths import SECRETS

PASSWORD_VARIABLE = "WINA_DATABASE_PASSWORD"
"""Environment variable of the password; libpq itself reads PGPASSWORD and PGPASSFILE."""
DRIVER = "postgresql+psycopg"
WRITERS = 0x77696E61_00000001  # "wina" in ASCII
"""Key of the advisory lock that the writing transaction of a database holds."""
_OLDEST, _OLDEST_NAME = 120_000, "12"
WAIT_SECONDS = 60.0
"""Longest wait for another program's write."""
_DEFAULTS = {
    "application_name": "wina-workbench",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""Parameters of a connection that its URL does not name. A dead network is noticed within a minute."""
_SETTINGS = (
    ("tcp_keepalives_idle", "30"),
    ("tcp_keepalives_interval", "10"),
    ("tcp_keepalives_count", "3"),
    ("idle_in_transaction_session_timeout", "60s"),
)
"""Settings at the server, which ends the connection of a program that is gone, or sleeps while it writes."""


_BEGIN_WRITING = text(f"SELECT set_config('lock_timeout', :patience, true), pg_advisory_xact_lock({WRITERS})")
_CHANGES = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables"


def without_password(url: URL) -> URL:
    query = {name: value for name, value in url.query.items() if name not in SECRETS}
    return URL.create(url.drivername, url.username, None, url.host, url.port, url.database, query)


def is_postgres(url: URL) -> bool:
    return url.get_backend_name() == "postgresql"


def normalized(url: URL) -> URL:
    """Return a PostgreSQL URL with our driver, and a password among its parameters as that of the user."""
    password = url.query.get("password")
    if isinstance(password, str):
        url = url.difference_update_query(["password"]).set(password=url.password or password)
    return url.set(drivername=DRIVER)


def changes(engine: Engine) -> int:
    """Return the number of rows that were ever changed: it grows about a second after anybody writes."""
    with engine.connect() as connection:
        return int(connection.exec_driver_sql(_CHANGES).scalar() or 0)


def open_postgres(url: URL) -> Engine:
    """Return an engine that has not connected yet. Raises ModuleNotFoundError without psycopg.

    A transaction with the option `writing` waits until no other one writes. All others see the database as it was at
    their first query.
    """
    engine = create_engine(url, isolation_level="REPEATABLE READ", pool_pre_ping=True)

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Any, _record: object, _arguments: object, parameters: dict[str, Any]) -> Any:
        password = parameters.get("password") or os.environ.get(PASSWORD_VARIABLE)
        return dialect.loaded_dbapi.connect(**_DEFAULTS | parameters | ({"password": password} if password else {}))

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: object) -> None:
        if connection.info.server_version < _OLDEST:
            connection.close()
            raise WinaError(f"The server of {url.database} is older than PostgreSQL {_OLDEST_NAME}; update it.")
        connection.adapters.register_dumper(str, _nul_free_dumper())
        settings = ", ".join(f"set_config('{key}', '{value}', false)" for key, value in _SETTINGS)
        connection.execute(f"SELECT {settings}")
        # A later rollback would undo the settings.
        connection.commit()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get("writing", False):
            connection.execute(_BEGIN_WRITING, {"patience": f"{1000 * WAIT_SECONDS:.0f}"})

    return engine


@cache
def _nul_free_dumper() -> type[Any]:
    """Return a dumper of texts for psycopg, which replaces NUL by U+FFFD: PostgreSQL cannot store it."""
    from psycopg.types.string import StrDumperUnknown

    class NulFree(StrDumperUnknown):
        def dump(self, value: str) -> Any:
            return super().dump(value.replace("\0", "\ufffd") if "\0" in value else value)

    return NulFree
