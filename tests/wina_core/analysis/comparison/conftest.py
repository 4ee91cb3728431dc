"""Fixtures of several tests of comparisons."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.wina_core.conftest import Wina
from wina_core.store import Store


@pytest.fixture
def compare(wina: Wina, store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """The rows that `wina compare --json` prints."""
    monkeypatch.setenv("WINA_DATABASE", str(store.url.database))
    return lambda *words: json.loads(wina.succeeds("compare", *words, "--json"))
