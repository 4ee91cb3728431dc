"""Registers, stack and shared memory of every kernel with every shipped tile, compiled for every target without a GPU.

    python kernels/benchmarks/registers.py

Registers that do not suffice are spilled to the stack. File: `results/registers.json`, or --out.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import triton
from triton.compiler import CompiledKernel
from wina_kernels.gpu.compiling import TARGETS, builds


def main(arguments: Sequence[str] | None = None) -> None:
    """Compile all kernels and write their costs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "registers.json")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    given = parser.parse_args(arguments)
    found = []
    for build in builds():
        if given.only in build.name:
            costs = {name: cost(build.compiled(target)) for name, target in TARGETS.items()}
            print(f"{build.name}: {costs}", flush=True)
            found.append({"kernel": build.name, "targets": costs})
    content = {"versions": {"triton": triton.__version__}, "kernels": found}
    given.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def cost(kernel: CompiledKernel) -> dict[str, int]:
    """Return registers of a thread, bytes of its stack (spills), and bytes of a program's shared memory."""
    registers, stack = _amd(kernel.asm["amdgcn"]) if "amdgcn" in kernel.asm else _nvidia(kernel.asm["cubin"])
    return {"registers": registers, "stack_bytes": stack, "shared_bytes": kernel.metadata.shared}


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
    found: Any = re.search(pattern, text)
    return int(found.group(1))


if __name__ == "__main__":
    main()
