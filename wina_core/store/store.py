"""The store: a database that is opened by this process, to read and to write."""

import time
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import select

from wina_core.errors import WinaError
from wina_core.files import paths
from wina_core.store import schema, tables
from wina_core.store.backlog import store_spills
from wina_core.store.connection import explained, open_engine, parse_url, sqlite_file, use_wal
from wina_core.store.sessions import sessions_of
from wina_core.store.writer import Writer, leave

ENDED_EARLY = "Its program ended before this run was finished; run it again to compute what is missing."


class Store(Writer):
    """The only writer of a process. Each method is one transaction; other processes may write in between.

    Opening makes or upgrades the tables, after a backup, and marks what a program that died left behind as
    interrupted. Raises WinaError for a database that is another program's, newer, damaged, locked or not writable.
    """

    def __init__(self, place: str | Path | None = None) -> None:
        """`place` is an SQLAlchemy URL or the path of an SQLite file; by default `paths.database()`."""
        url = parse_url(paths.database() if place is None else place)
        schema.check(url)
        super().__init__(url, open_engine(url))
        try:
            self._start()
        except BaseException:
            self._engine.dispose()
            raise
        self.remarks = store_spills(self)
        """Sentences on results that waited for space and are stored now, or never can be."""

    def _start(self) -> None:
        try:
            self._sessions = sessions_of(self.url)
            with self._sessions.starting, explained(self.url):
                schema.prepare(self._engine)
                if file := sqlite_file(self.url):
                    use_wal(file)
                self._mark_interrupted()
                self._session = self._sessions.begin()
        except OSError as error:
            raise WinaError(
                f"The results database {self.url.database} cannot be written ({error.strerror}); make its folder "
                "writable or set WINA_DATABASE to a file elsewhere."
            ) from error

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()
        self._sessions.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _mark_interrupted(self) -> None:
        left = (
            tables.Run.status.in_(("queued", "running"))
            & tables.Run.owner.startswith(self._sessions.scope)
            & tables.Run.owner.not_in(self._sessions.living())
        )
        with self._engine.connect() as connection:
            if connection.execute(select(tables.Run.id).where(left).limit(1)).first() is None:
                return
        with self._writing() as connection:
            leave(connection, left, {"status": "interrupted", "finished": time.time(), "error": ENDED_EARLY})
