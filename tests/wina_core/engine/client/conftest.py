"""Pools over fake engines."""

from collections.abc import Callable, Iterator

import pytest

from tests.wina_core.engine.fake_pool import Pool
from wina_core.engine.client import pool as pool_module


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Pool]]:
    monkeypatch.setattr(pool_module, "TICK_SECONDS", 0.02)
    made: list[Pool] = []

    def pool(engines: int = 2, eager: bool = False, light: bool = False) -> Pool:
        made.append(Pool(engines, eager, light))
        return made[-1]

    yield pool
    for each in made:
        each.pool.stop()


@pytest.fixture
def pool(make: Callable[..., Pool]) -> Pool:
    return make()
