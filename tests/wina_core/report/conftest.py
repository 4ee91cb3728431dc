"""Fixtures of several tests of reports."""

from collections.abc import Iterator

import pytest

from wina_core.store import Store


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty database in memory."""
    with Store("sqlite://") as opened:
        yield opened
