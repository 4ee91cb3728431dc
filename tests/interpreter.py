"""Tests of what Triton compiles: on a GPU where there is one, under Triton's interpreter otherwise.

Triton decides when it is imported whether it interprets, and other tests may import it first: without a GPU, a process
of its own runs such a file once more.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
runs = pytest.mark.skipif(not INTERPRETED and DEVICE == "cpu", reason="no GPU: test_under_the_interpreter runs this")
runs_the_others = pytest.mark.skipif(INTERPRETED or DEVICE == "cuda", reason="this is it, or a GPU does it")


def run_interpreted(file: str) -> None:
    """Fails with what pytest printed where a test of the file fails under the interpreter."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", file],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-8000:]
