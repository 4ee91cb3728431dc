"""One part of the GPU's benchmark, in the process that `gpu.run_part` starts: NAME FILE SECONDS COPY TOY.

FILE is rewritten with each measurement, so that what was measured before a failure is kept.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from gpu_budget import Budget
from gpu_machine import Machine

from wina_core.files.tables import write_atomically

_TOY_CACHE = 1 << 16


def main(arguments: Sequence[str]) -> None:
    """Measure a part."""
    name, file, seconds, copy, toy = arguments
    for content in measure(name, float(seconds), json.loads(copy), json.loads(toy)):
        write_atomically(Path(file), json.dumps(content).encode())


def measure(name: str, seconds: float, copy: float | None, toy: bool) -> Iterator[dict[str, Any]]:
    """Yield all results of a part so far, again and again; `copy` is the copy's bandwidth, where it is known."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    module: Any = importlib.import_module(f"gpu_{name}")
    if toy and device.type == "cpu":
        cache = _TOY_CACHE
    else:
        from wina_core.compute.latency.device import cache_bytes

        cache = cache_bytes(device)
    yield from module.measure(toy, Machine(device, cache, copy), Budget(seconds))


if __name__ == "__main__":
    main(sys.argv[1:])
