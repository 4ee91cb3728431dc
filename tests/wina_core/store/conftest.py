"""Fixtures of several tests of the store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from wina_core.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty database in a file."""
    with Store(tmp_path / "results.sqlite") as opened:
        yield opened
