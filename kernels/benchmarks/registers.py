"""Registers, stack and shared memory of every kernel with every shipped tile, compiled for every target without a GPU.

    python kernels/benchmarks/registers.py

Registers that do not suffice are spilled to the stack. With the targets' limits they give the warps that a
multiprocessor holds; if that is none, the kernel cannot be launched and the command fails. File:
`results/registers.json`, or --out.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import triton
from comparing import write_json
from triton.compiler import CompiledKernel
from wina_kernels.gpu.compiling import LIMITS, TARGETS, builds, resident_warps


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "registers.json")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    options = parser.parse_args(arguments)
    kernels: list[dict[str, Any]] = []
    for build in builds():
        if options.only in build.name:
            costs = {name: cost(build.compiled(target), name, build.warps) for name, target in TARGETS.items()}
            print(line(build.name, costs), flush=True)
            kernels.append({"kernel": build.name, "targets": costs})
    content = {"versions": {"triton": triton.__version__}, "kernels": kernels}
    write_json(options.out, content)
    too_large = [
        kernel["kernel"]
        for kernel in kernels
        if any(not costs["resident_warps"] for costs in kernel["targets"].values())
    ]
    if too_large:
        raise SystemExit(f"These kernels do not fit on a multiprocessor: {'; '.join(too_large)}.")


def cost(kernel: CompiledKernel, target: str, warps: int) -> dict[str, int]:
    """Return registers of a thread, bytes of its stack (spills), bytes of a program's shared memory, and the warps that
    a multiprocessor holds."""
    registers, stack = _amd(kernel.asm["amdgcn"]) if "amdgcn" in kernel.asm else _nvidia(kernel.asm["cubin"])
    resident = resident_warps(LIMITS[target], registers, kernel.metadata.shared, warps)
    return {"registers": registers, "stack_bytes": stack, "shared_bytes": kernel.metadata.shared,
            "resident_warps": resident}  # fmt: skip


def line(name: str, costs: Mapping[str, Mapping[str, int]]) -> str:
    """Return a kernel's row of the printed table: by target registers, shared bytes, resident warps and spilled
    bytes."""
    cells = [
        f"{target} {target_cost['registers']:3} {target_cost['shared_bytes']:5} {target_cost['resident_warps']:2}"
        + (f" SPILLS {target_cost['stack_bytes']}" if target_cost["stack_bytes"] else "")
        for target, target_cost in costs.items()
    ]
    return f"{name:70} {' | '.join(cells)}"


def _nvidia(cubin: bytes) -> tuple[int, int]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        tool = triton.knobs.nvidia.cuobjdump.path
        listing = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    return _number(r"REG:(\d+)", listing), _number(r"STACK:(\d+)", listing)


def _amd(assembly: str) -> tuple[int, int]:
    return _number(r"\.vgpr_count:\s*(\d+)", assembly), _number(r"\.private_segment_fixed_size:\s*(\d+)", assembly)


def _number(pattern: str, text: str) -> int:
    match: Any = re.search(pattern, text)
    return int(match.group(1))


if __name__ == "__main__":
    main()
