"""Databases of the tests of the store: a file, and one on a real PostgreSQL server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wina_core.store import postgres
from wina_core.store import Store


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Server]:
    """Yield a PostgreSQL server of this test process."""
    folder = postgres.programs()
    if folder is None:
        pytest.skip("PostgreSQL's server is not installed (Debian's package postgresql)")
    server = postgres.Server(folder)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def shared(server: postgres.Server) -> str:
    """Yield the address of a database that test after test empties: making one takes longer than a test."""
    url = server.create()
    Store(url).close()
    return url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the address of an empty results database: a file that is not made yet, or one on a server."""
    if request.param == "sqlite":
        yield str(tmp_path / "results.sqlite")
        return
    server: postgres.Server = request.getfixturevalue("server")
    url: str = request.getfixturevalue("shared")
    yield url
    server.empty(url)


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
