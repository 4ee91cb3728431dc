"""The store: a database that is opened by this process, to read and to write."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DBAPIError

from wina_core.errors import WinaError
from wina_core.files import paths
from wina_core.jobs import Submit
from wina_core.records import ACTIVE
from wina_core.store import upgrade
from wina_core.store.connection import (
    connect_to_read,
    explained,
    for_writing,
    open_engine,
    open_to_read,
    parse_url,
    sqlite_file,
    use_wal,
)
from wina_core.store.jobs import ListedJob, job_ids_of, jobs_of_dead_programs, jobs_of_others
from wina_core.store.postgres import changes, is_postgres
from wina_core.store.refusals import UnwritableError, unwritable
from wina_core.store.sessions import QUEUED_ELSEWHERE, Sessions, sessions_of
from wina_core.store.tables import RunTable, update_stopped_runs
from wina_core.store.writer import Writer

ENDED_EARLY = "Its program ended before this run was finished; run it again to compute what is missing."


class Store(Writer):
    """The only writer of a process; other processes may write in between.

    Opening makes or upgrades the tables, after a backup, and marks what a program that died left behind as interrupted.
    A database that cannot be written is opened to read; each write tries to open it again. Raises WinaError for a
    database that is another program's, newer, damaged, locked or unreadable.
    """

    def __init__(self, address: str | Path | None = None, *, shared: bool = False) -> None:
        """`address` is an SQLAlchemy URL or the path of an SQLite file; by default `paths.database()`.

        A `shared` file is read by other machines while this one writes: it gets no write-ahead log, whose index is in
        the memory of one machine.
        """
        url = parse_url(paths.database() if address is None else address)
        super().__init__(url, open_engine(url))
        self._shared = shared
        self._sessions: Sessions | None = None
        self._watch: sqlite3.Connection | None = None
        """Connection for `has_news` alone: SQLite counts for each connection what all others commit."""
        self._version = 0
        """Number of changes at the last call of `has_news`."""
        self._last_query = 0.0
        self.problem = ""
        """Sentence on why nothing can be stored; empty while the database can be written."""
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def retry(self) -> None:
        """Try again to open a database for writing that could only be read; `problem` is empty after success."""
        if self.problem:
            with suppress(UnwritableError):  # which is the same problem
                self._start(open_engine(self.url))

    def _open(self) -> None:
        try:
            self._start(self._engine)
        except UnwritableError as refusal:
            file = sqlite_file(self.url)
            if file is None or not os.path.exists(file):
                raise
            self._engine = open_to_read(self.url, file)
            self.problem = str(refusal)
            with explained(self.url):
                upgrade.check_readable(self._engine, refusal)
                self._watch_file()

    def _start(self, engine: Engine) -> None:
        """Prepare the database for reading and writing through `engine`."""
        sessions = None
        try:
            upgrade.check(self.url)
            sessions = sessions_of(self.url)
            with explained(self.url), sessions.starting:
                upgrade.check_server(engine)
                upgrade.prepare(engine)
                if (file := sqlite_file(self.url)) and not self._shared:
                    use_wal(file)
                _mark_interrupted(engine, sessions)
                self._session = sessions.begin()
        except BaseException as error:
            engine.dispose()
            if isinstance(error, OSError):
                raise unwritable(self.url.database, error) from error
            raise
        self._engine, self._sessions, self.problem = engine, sessions, ""
        self._watch_file()

    def _watch_file(self) -> None:
        """Begin to look for news in a file; its present content is none."""
        if file := sqlite_file(self.url):
            with explained(self.url):
                self._stop_watching()
                self._watch = connect_to_read(file)
                self._watch.execute("PRAGMA busy_timeout = 100")  # the thread that asks has other work
        self.has_news()  # notes the present version, so that only later changes are news

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        if self.problem:
            self._start(open_engine(self.url))
        with super()._writing() as connection:
            yield connection

    def unfinished_jobs(self, *, take: bool = False) -> list[Submit]:
        """Return the jobs of programs that died, without consent to run code.

        With `take` they become this program's, and are not returned to other programs. A database that can only be read
        has none.
        """
        if self._sessions is None:  # it can only be read
            return []
        with self._alone() as (connection, living):
            owner = self._session if take else None
            return jobs_of_dead_programs(connection, living, self._sessions.scope, owner)

    def list_jobs(self) -> list[ListedJob]:
        """Return the jobs of other programs that have not ended; a database that can only be read has none."""
        if self._sessions is None:
            return []
        with self._sessions.starting:
            living = self._sessions.living()
        with explained(self.url), self._engine.connect() as connection:
            return jobs_of_others(connection, living, self._sessions.scope, self._session)

    def kept_jobs(self) -> frozenset[str]:
        """Return the ids of this program's jobs that have not ended, without those that another program cancelled."""
        with explained(self.url), self._engine.connect() as connection:
            return job_ids_of(connection, self._session)

    @contextmanager
    def _alone(self) -> Iterator[tuple[Connection, tuple[str, ...]]]:
        """Yield a connection that writes, and the living sessions."""
        if self._sessions is None:  # so far the database could only be read
            self._start(open_engine(self.url))
        assert self._sessions is not None
        # In the order of `_start`: with the database locked first, the two could wait for each other.
        with explained(self.url), self._sessions.starting, self._writing() as connection:
            yield connection, self._sessions.living()

    def has_news(self) -> bool:
        """Return whether anybody wrote since the last call, this store included.

        Raises nothing: a database that cannot be asked has no news.
        """
        try:
            if is_postgres(self.url):
                if time.monotonic() - self._last_query < 1.0:  # each call would send a query to the server
                    return False
                self._last_query = time.monotonic()
                version = changes(self._engine)
            elif self._watch is not None:
                (version,) = self._watch.execute("PRAGMA data_version").fetchone()
            else:
                return False
        except (sqlite3.Error, DBAPIError, WinaError):  # locked or gone: the next query says so
            return False
        before, self._version = self._version, version
        return bool(version != before)

    def close(self) -> None:
        self._stop_watching()
        self._engine.dispose()
        if self._sessions is not None:
            self._sessions.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _mark_interrupted(engine: Engine, sessions: Sessions) -> None:
    living = sessions.living()
    abandoned = (
        RunTable.status.in_(ACTIVE)
        & RunTable.owner.startswith(sessions.scope)
        & RunTable.owner.not_in(living)
        & ~RunTable.owner.startswith(QUEUED_ELSEWHERE)
    )
    # Read first: most starts find none, and need not wait until others have written.
    with engine.connect() as connection:
        if connection.execute(select(RunTable.id).where(abandoned).limit(1)).first() is None:
            return
    with for_writing(engine).begin() as connection:
        update_stopped_runs(
            connection, abandoned, {"status": "interrupted", "finished": time.time(), "error": ENDED_EARLY}
        )
