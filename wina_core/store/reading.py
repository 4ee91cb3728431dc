"""Base class of the database's readers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from pydantic import BaseModel
from sqlalchemy import Connection, Engine

from wina_core.store.connection import explained
from wina_core.store.metrics import Query

T = TypeVar("T", bound=BaseModel)


class Reading:
    """A database to read from, on any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with explained(self._engine.url), self._engine.connect() as connection:
            yield connection

    def _parsed(self, query: Query, kind: type[T]) -> T | None:
        """Return the JSON in the query's one cell as a `kind`; None where there is no row."""
        with self._reading() as connection:
            found: str | None = connection.execute(query).scalar()
            return None if found is None else kind.model_validate_json(found)

    def _scalar(self, query: Query) -> str | None:
        with self._reading() as connection:
            found: str | None = connection.execute(query).scalar()
        return found
