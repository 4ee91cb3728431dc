"""Kernels compile to binaries without a GPU: the first of each and every fiftieth, or with WINA_LONG_TESTS=1 all.

The targets take turns, one for each kernel.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.interpreter import INTERPRETED

pytest.importorskip("triton", reason="Triton ships for Linux alone")
if INTERPRETED:
    pytest.skip("what is interpreted is not compiled", allow_module_level=True)

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompiledKernel
from wina_kernels.gpu import shares, steps
from wina_kernels.gpu.products import TOP_K_BLOCK, TOP_K_WARPS, masked_linear_kernel, sparse_linear_kernel, top_k_kernel
from wina_kernels.gpu.tiles import MOST_STEP_SHARES, TILES, Tile

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "sm_120": GPUTarget("cuda", 120, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
_WEIGHTS = {32: "*fp32", 16: "*bf16", 8: "*i8", 4: "*u8"}


@dataclass(frozen=True)
class Build:
    """A kernel's launch: its arguments and compile-time values."""

    name: str
    kernel: Any
    arguments: Mapping[str, Any]
    """In the kernel's order: a type such as "*bf16" or "i32", or the value of a constant."""
    warps: int

    def compiled(self, target: GPUTarget) -> CompiledKernel:
        """Return the binary for one of TARGETS, for tensors and sizes that are multiples of 16."""
        signature = {name: value if _is_type(value) else "constexpr" for name, value in self.arguments.items()}
        constants = {name: value for name, value in self.arguments.items() if not _is_type(value)}
        aligned = {path: [["tt.divisibility", 16]] for path in _aligned(signature)}
        source = ASTSource(self.kernel, signature, constants, aligned)
        return triton.compile(source, target=target, options={"num_warps": self.warps, **shares.OPTIONS})


def builds() -> list[Build]:
    """Return every kernel with every shipped tile, for its row counts, and every kind of operand once."""
    found = []
    for bits, by_rows in TILES.items():
        for rows, tiles in by_rows.items():
            for tile in tiles:
                found += [_sparse_linear(bits, rows, tile), _masked_linear(bits, rows, tile)]
    for bits in TILES:
        tile = TILES[bits][1][0]
        found.append(_sparse_linear(bits, 1, tile, note="without scale or zero", scaled=False))
    for bits in (8, 4):
        found.append(_sparse_linear(bits, 1, TILES[bits][1][0], uniform=False, note="groups across blocks"))
    found.append(_sparse_linear(16, 1, TILES[16][1][0], weight="*fp16", note="float16"))
    found += [_sparse_linear(16, 1, tile, note="counting", counting=True) for tile in TILES[16][1]]
    found += [_top_k(scaled=True), _top_k(scaled=False), _top_k(scaled=True, counting=True)]
    found.append(_top_k(scaled=True, counting=True, floor=True))
    found += [_add(count) for count in (2, 4, 8, 16, 32, 64)]
    for sums, count in (("*bf16", 1), ("*fp32", MOST_STEP_SHARES)):
        found += [_add_norm(sums, count), _silu_mul(sums, count)]
        found += [_attention(sums, count, normalized) for normalized in (False, True)]
    return found


def _sparse_linear(
    bits: int,
    rows: int,
    tile: Tile,
    note: str = "",
    scaled: bool = True,
    counting: bool = False,
    **others: Any,
) -> Build:
    arguments = {
        "x": "*bf16", "x_stride": "i32",
        "column_scale": "*fp32" if scaled else None,
        "threshold": "fp32", "counts": "*i64" if counting else None, "out": "*fp32",
        "inputs_in_all": "i32", "outputs_in_all": "i32",
    }  # fmt: skip
    arguments |= _weight(bits, rows, tile, zero=scaled, **others)
    return Build(_named("sparse_linear", bits, rows, tile, note), sparse_linear_kernel, arguments, tile.warps)


def _masked_linear(bits: int, rows: int, tile: Tile) -> Build:
    arguments = {
        "x": "*bf16", "x_stride": "i32", "mask": "*u8", "out": "*fp32",
        "inputs_in_all": "i32", "outputs_in_all": "i32",
    }  # fmt: skip
    arguments |= _weight(bits, rows, tile, zero=True)
    return Build(_named("masked_linear", bits, rows, tile), masked_linear_kernel, arguments, tile.warps)


def _weight(
    bits: int, rows: int, tile: Tile, zero: bool, uniform: bool = True, weight: str | None = None
) -> dict[str, Any]:
    quantized = bits < 16
    return {
        "weight": weight or _WEIGHTS[bits], "stride": "i32",
        "scale": "*bf16" if quantized else None, "scale_stride": "i32",
        "zero": "*bf16" if quantized and zero else None, "zero_stride": "i32", "group": "i32",
        "BITS": bits, "UNIFORM": uniform, "ROWS": rows, "BLOCK_N": tile.inputs, "BLOCK_M": tile.outputs,
        "VECTOR": tile.vector, "LINES": tile.lines,
    }  # fmt: skip


def _top_k(scaled: bool, counting: bool = False, floor: bool = False) -> Build:
    arguments = {
        "x": "*bf16", "x_stride": "i32",
        "column_scale": "*fp32" if scaled else None, "keep": "i32", "limit": "i32" if floor else None,
        "mask": "*u8", "counts": "*i64" if counting else None,
        "inputs_in_all": "i32", "BLOCK": TOP_K_BLOCK,
    }  # fmt: skip
    details = [name for name, given in (("counting", counting), ("a floor", floor)) if given]
    name = ", ".join(("top_k", "scaled" if scaled else "unscaled", *details))
    return Build(name, top_k_kernel, arguments, TOP_K_WARPS)


def _add(count: int) -> Build:
    arguments = {"sums": "*fp32", "out": "*bf16", "length": "i32", "SHARES": count, "BLOCK": shares.BLOCK}
    return Build(f"add, {count} shares", shares.add_kernel, arguments, shares.WARPS)


def _add_norm(sums: str, count: int, n: int = 4096) -> Build:
    arguments = {
        "stream": "*bf16", "sums": sums, "bias": None, "gain": "*bf16", "out": "*bf16", "squares": "*fp32",
        "counter": "*i32", "n": "i32", "epsilon": "fp32",
        "SHARES": count, "BLOCK": steps.NORM_BLOCK, "PROGRAMS": n // steps.NORM_BLOCK, "WHOLE": n,
    }  # fmt: skip
    return Build(f"add_norm, {count} shares, {n}", steps.add_norm_kernel, arguments, steps.WARPS)


def _silu_mul(sums: str, count: int) -> Build:
    arguments = {
        "sums": sums, "bias": None, "out": "*bf16", "units": "i32", "SHARES": count, "BLOCK": steps.ACTIVATION_BLOCK
    }  # fmt: skip
    return Build(f"silu_mul, {count} shares", steps.silu_mul_kernel, arguments, steps.WARPS)


def _attention(sums: str, count: int, normalized: bool, half: int = 64) -> Build:
    gain = "*bf16" if normalized else None
    arguments = {
        "sums": sums, "bias": "*bf16" if normalized else None, "query_gain": gain, "key_gain": gain,
        "epsilon": "fp32", "cosines": "*fp32", "sines": "*fp32", "position": "*i64", "keys": "*bf16",
        "values": "*bf16", "out": "*bf16", "partial": "*fp32", "counters": "*i32", "capacity": "i32",
        "heads": "i32", "group": "i32", "half": "i32", "window": "i32", "scale": "fp32",
        "SHARES": count, "QUERIES": steps.MOST_QUERIES, "HALF": half, "BLOCK": steps.ATTENTION_BLOCK,
        "SPLITS": steps.MOST_SPLITS,
    }  # fmt: skip
    name = f"attention, {count} shares{', normalized heads' if normalized else ''}"
    return Build(name, steps.attention_kernel, arguments, steps.WARPS)


def _named(kernel: str, bits: int, rows: int, tile: Tile, note: str = "") -> str:
    of = f"{kernel}, {bits} bits, {rows} rows, {tile.label}"
    return f"{of}, {note}" if note else of


def _is_type(value: Any) -> bool:
    return isinstance(value, str)


def _aligned(signature: Mapping[str, str]) -> list[tuple[int]]:
    return [(index,) for index, kind in enumerate(signature.values()) if kind == "i32" or kind.startswith("*")]


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
