"""Peak memory of rotating a model, above the model itself, in its own process (Linux).

    python kernels/benchmarks/peak_memory.py ROUTE '{"hidden": 512, ...}'

prints {"peak_bytes", "model_bytes", "layer_float64_bytes"}. The kernel's highest resident size of the process is reset
once the model exists. Larger blocks are mapped separately, so freed memory is really gone and the figure repeats up to
some hundred KiB.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

_LARGE_BLOCK = 1 << 16
_RESET_PEAK = "5"
"""See proc(5), /proc/pid/clear_refs."""


def peak_memory(route: str, size: dict[str, int]) -> dict[str, int]:
    """Return the peak of one of `routes.ROUTES` on a random Llama in float32; empty if the system does not report
    it."""
    if not sys.platform.startswith("linux"):
        return {}
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(_LARGE_BLOCK), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, route, json.dumps(size)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    figures: dict[str, int] = json.loads(done.stdout)
    return figures


def _measure(route: str, size: dict[str, int]) -> dict[str, int]:
    import torch
    from random_models import Size, random_llama
    from routes import ROUTES

    view = random_llama(Size(**size)).view
    torch.linalg.eigh(torch.eye(8, dtype=torch.float64))  # libraries that are loaded on first use are no peak
    torch.linalg.svd(torch.eye(8, dtype=torch.float64))
    Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
    before = _status("VmRSS")
    ROUTES[route](view)
    return {
        "peak_bytes": _status("VmHWM") - before,
        "model_bytes": sum(parameter.numel() * parameter.element_size() for parameter in view.model.parameters()),
        "layer_float64_bytes": 8 * sum(view.layout.parameters[0]),
    }


def _status(field: str) -> int:
    """Return a size in this process's status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], json.loads(sys.argv[2]))))
