"""Base class of the database's readers."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from wina_core.store.connection import explained
from wina_core.store.metrics import Query


class Reading:
    """A database to read from, on any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with explained(self._engine.url), self._engine.connect() as connection:
            yield connection

    def _scalar(self, query: Query) -> str | None:
        with self._reading() as connection:
            found: str | None = connection.execute(query).scalar()
        return found
