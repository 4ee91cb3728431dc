"""Kernels compile to binaries without a GPU: the first of each and every fiftieth, or with WINA_LONG_TESTS=1 all.

The targets take turns; `kernels/benchmarks/registers.py` compiles all for each.
"""

import importlib
import json
import os
from pathlib import Path

import pytest

from tests.interpreter import INTERPRETED

pytest.importorskip("triton", reason="Triton ships for Linux alone")
if INTERPRETED:
    pytest.skip("what is interpreted is not compiled", allow_module_level=True)

from wina_kernels.gpu.compiling import LIMITS, TARGETS, Build, builds, resident_warps

BENCHMARKS = Path(__file__).parents[2] / "kernels" / "benchmarks"
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


def test_everything_that_ships_is_listed_and_fits_on_every_target() -> None:
    """At least eight warps on a multiprocessor, and nothing spilled but where a block crosses groups of scales."""
    listed = json.loads((BENCHMARKS / "results" / "registers.json").read_text(encoding="utf-8"))["kernels"]
    assert [kernel["kernel"] for kernel in listed] == [build.name for build in builds()]
    assert all(list(kernel["targets"]) == list(TARGETS) for kernel in listed)
    costs = {(kernel["kernel"], target): cost for kernel in listed for target, cost in kernel["targets"].items()}
    assert min(cost["resident_warps"] for cost in costs.values()) >= 8
    assert all("groups across blocks" in name for (name, _), cost in costs.items() if cost["stack_bytes"])
    assert max(cost["stack_bytes"] for cost in costs.values()) <= 32


def test_the_warps_that_fit_are_limited_by_each_resource() -> None:
    limits = LIMITS["sm_90"]
    assert resident_warps(limits, registers=32, shared_bytes=0, warps=4) == 64
    assert resident_warps(limits, registers=250, shared_bytes=0, warps=4) == 8
    assert resident_warps(limits, registers=32, shared_bytes=100 * 1024, warps=4) == 8
    assert resident_warps(limits, registers=256, shared_bytes=0, warps=1) == 0
    assert resident_warps(limits, registers=250, shared_bytes=0, warps=16) == 0
    assert resident_warps(limits, registers=32, shared_bytes=228 * 1024, warps=1) == 0
    assert resident_warps(LIMITS["gfx942"], registers=128, shared_bytes=0, warps=4) == 16
    assert LIMITS.keys() == TARGETS.keys()


def test_the_command_that_lists_registers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    registers = importlib.import_module("registers")
    registers.main(["--only", "add, 2 shares", "--out", str(tmp_path / "registers.json")])
    (listed,) = json.loads((tmp_path / "registers.json").read_text(encoding="utf-8"))["kernels"]
    assert all(0 < cost["registers"] <= 255 and cost["stack_bytes"] == 0 for cost in listed["targets"].values())
