"""Fixtures of the kernels' tests."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from wina_kernels.native import abi

BENCHMARKS = Path(__file__).parents[2] / "kernels" / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of the benchmarks' folder as they import each other."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


@pytest.fixture(params=["portable", "avx2", "avxvnni", "avx512", "avx512vnni"])
def instructions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compute with one instruction set of the native library; skip what this processor lacks."""
    library, before = abi.loaded(), abi.instructions()
    if library is None or before is None or not library.wina_use_instructions(request.param.encode()):
        pytest.skip(f"this processor has no {request.param}")
    yield
    library.wina_use_instructions(before.encode())
