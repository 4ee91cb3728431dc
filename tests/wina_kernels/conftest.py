"""Fixtures of the kernels' tests."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "kernels" / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of the benchmarks' folder as they import each other."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module
