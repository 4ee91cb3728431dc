"""Tests of what Triton compiles run under its interpreter where there is no GPU, in one process for all files that ask
for it: importing what they need takes longer than many of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interpreter import DEVICE, INTERPRETED

pytest.importorskip("triton", reason="Triton ships for Linux alone")
FOLDER = Path(__file__).parent
ASKED = (
    "wina_kernels/test_gpu.py",
    "wina_kernels/test_gpu_steps.py",
    "wina_core/compute/gating/test_on_gpu.py",
    "wina_kernels/test_benchmarks.py::test_the_gpu_benchmark_goes_its_whole_way",
)


@pytest.mark.skipif(INTERPRETED or DEVICE == "cuda", reason="this is it, or a GPU does it")
def test_under_the_interpreter() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        + [str(FOLDER / asked) for asked in ASKED],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        cwd=FOLDER.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-8000:]


def test_every_file_that_asks_for_it_is_run() -> None:
    asking = {
        file.relative_to(FOLDER).as_posix()
        for file in FOLDER.rglob("test_*.py")
        if "\n@runs\n" in file.read_text("utf-8")
    }
    assert asking == {asked.partition("::")[0] for asked in ASKED}
