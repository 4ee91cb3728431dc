"""Kernels compile to binaries without a GPU: the first of each and every fiftieth, or with WINA_LONG_TESTS=1 all.

The targets take turns, one for each kernel.
"""

import os
from pathlib import Path

import pytest

from tests.interpreter import INTERPRETED

pytest.importorskip("triton", reason="Triton ships for Linux alone")
if INTERPRETED:
    pytest.skip("what is interpreted is not compiled", allow_module_level=True)

from tests.wina_kernels.gpu_builds import TARGETS, Build, builds

TURNS = [(build, list(TARGETS)[turn % len(TARGETS)]) for turn, build in enumerate(builds())]
FIRST = {turn[0].name.partition(",")[0]: turn for turn in reversed(TURNS)}
SHORT = list({turn[0].name: turn for turn in (*FIRST.values(), *TURNS[::50])}.values())
TAKEN = TURNS if "WINA_LONG_TESTS" in os.environ else SHORT


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing compiled earlier is taken."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize(("build", "target"), TAKEN, ids=lambda value: getattr(value, "name", value))
def test_a_binary_is_made(build: Build, target: str) -> None:
    made = build.compiled(TARGETS[target]).asm
    assert made["hsaco" if target == "gfx942" else "cubin"].startswith(b"\x7fELF")


@pytest.mark.parametrize("target", TARGETS)
def test_weights_are_loaded_in_one_piece_by_each_thread_and_summed_there(target: str) -> None:
    build = next(build for build in builds() if build.name.startswith("sparse_linear, 16 bits, 1 rows"))
    layouts = build.compiled(TARGETS[target]).asm["ttgir"]
    lanes = 64 if target == "gfx942" else 32
    rows = 1 if target != "gfx942" else 2
    assert f"sizePerThread = [1, 8], threadsPerWarp = [{rows}, {lanes // rows}]" in layouts
