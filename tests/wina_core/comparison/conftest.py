"""Fixtures of several tests of comparisons."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wina_core.cli import app
from wina_core.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty database in a file."""
    with Store(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """The output and the messages of `wina compare`."""

    def run(*words: str) -> tuple[str, str]:
        app(["compare", *words, "--database", str(tmp_path / "results.sqlite")], standalone_mode=False)
        return capsys.readouterr()

    return run


@pytest.fixture
def compare(printed: Callable[..., tuple[str, str]]) -> Callable[..., list[dict[str, Any]]]:
    """The rows that `wina compare --json` prints."""
    return lambda *words: json.loads(printed(*words, "--json")[0])
