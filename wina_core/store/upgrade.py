"""Upgrade of a database to this program's schema, or its refusal, untouched.

The version is the number of the last migration, kept in a table of a name that no other program uses. A fresh
database is made from the table declarations at once; Alembic is imported only when there is something to upgrade.
"""

import glob
import re
import sqlite3
import stat
import time
from pathlib import Path

from sqlalchemy import URL, Engine, inspect, text

from wina_core.errors import WinaError
from wina_core.files.user_file import check_file
from wina_core.store.connection import explained, for_writing, open_engine, place_of, sqlite_file
from wina_core.store.postgres import is_postgres
from wina_core.store.refusals import UnwritableError, damaged, explain_sqlite
from wina_core.store.tables import StoreTable

OLDEST = "0019"
"""The schema of version 0.2.0; databases of earlier versions are not upgraded."""
HEAD = "0020"
"""The newest file in migrations/versions."""
VERSION_TABLE = "wina_schema_version"
MIGRATIONS = Path(__file__).parent / "migrations"
BACKUPS_KEPT = 3
_LONGEST_REASON = 200
_RELATIONS = """
SELECT relname, relkind::text FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY relname
"""
_TRIGGERS = """
SELECT tgname::text FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
WHERE relnamespace = current_schema()::regnamespace AND NOT tgisinternal
UNION ALL SELECT rulename::text FROM pg_rewrite JOIN pg_class ON pg_class.oid = ev_class
WHERE relnamespace = current_schema()::regnamespace AND relkind <> 'v' AND relkind <> 'm'
"""


def check(url: URL) -> None:
    """Raise WinaError for a file of another program or of a newer version, without writing to it."""
    file = sqlite_file(url)
    if file is None:
        return
    try:
        status = file.stat()
    except OSError:  # the first write reports it
        return
    if stat.S_ISDIR(status.st_mode):
        raise WinaError(f"{file} is a folder, but results are kept in a file; name a file in it.")
    check_file(file, "results database")
    if status.st_size == 0:
        return
    with explained(url):
        connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
        try:
            # A list: a trigger may have the name of a table.
            objects = connection.execute("SELECT name, type FROM sqlite_master").fetchall()
            if objects and (VERSION_TABLE, "table") not in objects:
                raise WinaError(
                    f"{file} belongs to another program; set WINA_DATABASE to another file, nothing in it was changed."
                )
            foreign = [name for name, kind in objects if kind in ("view", "trigger")]
            if foreign:  # they compute whatever their author wrote
                raise WinaError(
                    f"{file} holds the view or trigger {foreign[0]!r}, which no version of the workbench makes; set "
                    "WINA_DATABASE to another file, nothing in it was changed."
                )
        finally:
            connection.close()
    # The version itself is read again, by `prepare`, once nobody else can be upgrading it.


def check_server(engine: Engine) -> None:
    """Raise WinaError for a PostgreSQL database of another program, or with views, rules or triggers."""
    if not is_postgres(engine.url):
        return
    address = place_of(engine.url)
    with engine.connect() as connection:
        if (encoding := connection.exec_driver_sql("SHOW server_encoding").scalar_one()) != "UTF8":
            raise WinaError(f"The database {address} has the encoding {encoding}; create it with ENCODING 'UTF8'.")
        kinds = {row.relname: row.relkind for row in connection.exec_driver_sql(_RELATIONS)}
        if kinds and kinds.get(VERSION_TABLE) != "r":
            raise WinaError(f"{address} belongs to another program; name another database, nothing in it was changed.")
        ours = {VERSION_TABLE, *StoreTable.metadata.tables}
        foreign = [name for name, kind in kinds.items() if name in ours and kind != "r"]
        foreign += connection.exec_driver_sql(_TRIGGERS).scalars().all()
    if foreign:
        raise WinaError(
            f"{address} holds the view, rule or trigger {foreign[0]!r}, which no version of the workbench makes; name "
            "another database, nothing in it was changed."
        )


def prepare(engine: Engine) -> None:
    """Make or upgrade the tables. The caller makes sure that one process does this at a time."""
    version = stored_version(engine)
    if version == HEAD:
        # A damaged database may lack tables in spite of its version.
        if not set(StoreTable.metadata.tables) <= set(inspect(engine).get_table_names()):
            raise WinaError(damaged(place_of(engine.url)))
        return
    if version is None:
        _create(engine)
    else:
        _check_known(engine, version)
        _upgrade(engine, version)


def stored_version(engine: Engine) -> str | None:
    """Return the schema version of a database; None for one without tables."""
    with engine.connect() as connection:
        if not inspect(connection).has_table(VERSION_TABLE):
            return None
        versions = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all()
    if len(versions) != 1 or not re.fullmatch(r"\d{4}", str(versions[0])):
        raise WinaError(damaged(place_of(engine.url)))
    return str(versions[0])


def check_readable(engine: Engine, refusal: WinaError | None = None) -> None:
    """Raise WinaError for a database that cannot be read as it is: empty, or of another schema.

    `refusal` says why it cannot be written, and so neither made nor upgraded.
    """
    address = place_of(engine.url)
    version = stored_version(engine)
    if version is None:
        raise refusal or WinaError(f"{address} holds no results yet; check the path.")
    _check_known(engine, version)
    if version != HEAD:
        advice = refusal or "Open it once with this version of the program, which upgrades it."
        raise WinaError(f"The results database {address} has schema {version}, and is read from {HEAD} on. {advice}")


def _check_known(engine: Engine, version: str) -> None:
    """Raise WinaError for a schema that this program neither reads nor upgrades."""
    address = place_of(engine.url)
    if version < OLDEST:
        raise WinaError(
            f"The results database {address} was written before version 0.2.0 of WINA Workbench (schema {version}) and "
            "is not read any more. Export its results with the version that wrote it: wina export results.csv --long "
            f"--database {address}. Then set WINA_DATABASE to another file; nothing in this one was changed."
        )
    if version > HEAD:
        raise WinaError(
            f"The results database {address} was written by a newer version of WINA Workbench (schema {version}, this "
            f"one knows {HEAD}); update the program or set WINA_DATABASE to another file."
        )


def _create(engine: Engine) -> None:
    with for_writing(engine).begin() as connection:
        if inspect(connection).has_table(VERSION_TABLE):  # made by a program on another computer meanwhile
            return
        StoreTable.metadata.create_all(connection)
        connection.execute(text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES ('{HEAD}')"))


def _upgrade(engine: Engine, version: str) -> None:
    from alembic import command
    from alembic.config import Config

    file = sqlite_file(engine.url)
    saved = back_up(file, version) if file else None
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))  # ConfigParser interpolates
    # With foreign keys enforced, rebuilding a table would delete the rows that refer to it.
    plain = open_engine(engine.url, foreign_keys=False)
    try:
        with for_writing(plain).begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, HEAD)
    except Exception as error:
        copy_note = f" and a copy is in {saved}" if saved else ""
        cause = str(getattr(error, "orig", None) or error)
        if isinstance(explain_sqlite(cause, place_of(engine.url)), UnwritableError):  # for now, such as on a full disk
            raise
        reason = (cause.splitlines() or [type(error).__name__])[0][:_LONGEST_REASON]
        raise WinaError(
            f"The results database {place_of(engine.url)} could not be upgraded from schema {version} to {HEAD} "
            f"({reason}); it is as it was{copy_note}."
        ) from error
    finally:
        plain.dispose()


def back_up(file: Path, version: str) -> Path:
    """Copy a database, its write-ahead log included, beside itself; only the last few copies are kept."""
    target = file.with_name(f"{file.name}.backup-{version}-{time.strftime('%Y%m%d-%H%M%S')}")
    partial = target.with_name(f"{target.name}.partial")
    source = sqlite3.connect(file)
    copy = sqlite3.connect(partial)
    try:
        source.backup(copy)
    except sqlite3.Error:
        partial.unlink()
        raise
    finally:
        copy.close()
        source.close()
    # A copy that was cut short must not pass for a backup.
    partial.replace(target)
    # The new copy is one of the BACKUPS_KEPT.
    older = [path for path in file.parent.glob(f"{glob.escape(file.name)}.backup-*") if path != target]
    for old in sorted(older, key=lambda path: path.stat().st_mtime)[: 1 - BACKUPS_KEPT]:
        old.unlink()
    return target
