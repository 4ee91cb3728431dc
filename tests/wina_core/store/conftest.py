"""Databases of the tests of the store: a file, and a copy of a template on a real PostgreSQL server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wina_core.store import postgres
from wina_core.store import Store


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Server]:
    """A PostgreSQL server of this test process."""
    if reason := postgres.missing():
        pytest.skip(reason)
    with postgres.running() as server:
        yield server


@pytest.fixture(scope="session")
def template(server: postgres.Server) -> str:
    """The name of a database with today's tables."""
    return server.make_template()


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty results database: a file that is not made yet, or a database of a server."""
    if request.param == "sqlite":
        return str(tmp_path / "results.sqlite")
    server: postgres.Server = request.getfixturevalue("server")
    return server.create(request.getfixturevalue("template"))


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    """An empty database."""
    with Store(address) as opened:
        yield opened


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    """An empty database in a file, for what only a file does."""
    with Store(tmp_path / "results.sqlite") as opened:
        yield opened
