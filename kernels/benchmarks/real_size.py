"""Models of real size on this machine: time and peak memory of every stage, of a random model in bfloat16.

    python kernels/benchmarks/run.py real-size 1.1b
    python kernels/benchmarks/run.py real-size 6.9b --memory 8GB
    python kernels/benchmarks/run.py real-size 1.1b --sparsity 0.5

Stages, each a command as a user types it, in a folder of results of its own: global rotation with activations; fidelity
of the dense model and of WINA at 25, 40, 50 and 65 % on 4,096 tokens; decode timing at 50 % (--decode). The peak is the
largest resident memory of the process, pages of files included.

Expected on two cores: 1.1 B in 15 minutes in all, at most 1.35 times the weights at the peak; 6.9 B in 8 GB with at
most 1.5 times the time of an unlimited run; five configurations that pass together at most 2.5 times one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from random_folders import SHAPES, write_random_folder

from wina_core.compute.session.environment import environment
from wina_core.files.memory import MEMORY_VARIABLE

HERE = Path(__file__).parent
_INTERVAL = 0.1
SPARSITIES = ("0.25", "0.4", "0.5", "0.65")


@dataclass(frozen=True)
class Stage:
    """A finished command."""

    name: str
    seconds: float
    peak_bytes: int
    """Largest resident memory."""
    anonymous_bytes: int
    """Largest resident memory without pages of files."""


def main(arguments: Sequence[str]) -> None:
    """Measure the stages of one model and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--folder", type=Path, help="the model's folder, written unless it is there; else temporary")
    parser.add_argument("--memory", help="limit, such as 8GB")
    parser.add_argument("--sparsity", action="append", help="instead of 25, 40, 50 and 65 %%; repeatable")
    parser.add_argument("--decode", action="store_true", help="also time decoding")
    parser.add_argument("--out", type=Path, help="the file to write")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch) / given.shape
        if not (folder / "model.safetensors.index.json").exists():
            write_random_folder(given.shape, folder)
        size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        variables = {"WINA_HOME": f"{scratch}/results"} | ({MEMORY_VARIABLE: given.memory} if given.memory else {})
        stages = []
        for name, words in _commands(folder, given.sparsity or SPARSITIES, given.decode):
            stages.append(_run(name, words, variables))
            print(
                f"{name}: {stages[-1].seconds:.0f} s, peak {stages[-1].peak_bytes / size:.2f} of the weights",
                flush=True,
            )
    here = environment()
    peak = max(stage.peak_bytes for stage in stages)
    content = {
        "benchmark": "real-size",
        "hardware": here.hardware,
        "versions": here.versions,
        "setting": {
            "shape": given.shape,
            "weights_bytes": size,
            "memory": given.memory,
            "sparsities": [float(each) for each in given.sparsity or SPARSITIES],
        },
        "stages": [asdict(stage) for stage in stages],
        "seconds": sum(stage.seconds for stage in stages),
        "peak_bytes": peak,
        "peak_over_weights": peak / size,
    }
    suffix = "-".join(filter(None, (given.shape, given.memory and f"in-{given.memory}")))
    file = given.out or HERE / "results" / f"real-size-{suffix}.json"
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"{content['seconds']:.0f} s in all, peak {peak / 1e9:.2f} GB, {peak / size:.2f} of the weights -> {file}")


def _commands(folder: Path, sparsities: Sequence[str], decode: bool) -> list[tuple[str, list[str]]]:
    model, rotation = ["--model", str(folder)], ["--rotation", "global"]
    asked = [word for each in sparsities for word in ("--sparsity", each)]
    found = [
        ("rotate", ["rotate", str(folder), *rotation]),
        (
            "fidelity",
            ["eval", *model, *rotation, "--method", "wina", *asked, "--fidelity", "--tokens", "4096", "--yes"],
        ),
    ]
    if decode:
        found.append(("decode", ["latency", str(folder), "--decode", "--sparsity", "0.5"]))
    return found


def _run(name: str, words: Sequence[str], variables: dict[str, str]) -> Stage:
    """Run a command and follow its memory; raise RuntimeError if it fails."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "wina_core.cli", *words],
            env={**os.environ, **variables},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        peak = anonymous = 0
        while process.poll() is None:
            found = [_resident(each) for each in (process.pid, *_children(process.pid))]
            peak = max(peak, sum(whole for whole, _ in found))
            anonymous = max(anonymous, sum(own for _, own in found))
            time.sleep(_INTERVAL)
        if process.returncode:
            output.seek(0)
            raise RuntimeError(output.read().decode(errors="replace")[-2000:])
    return Stage(name, time.perf_counter() - start, peak, anonymous)


def _children(pid: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _resident(pid: int) -> tuple[int, int]:
    """Return the resident bytes of a process, with and without pages of files; 0 once it has ended."""
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.NoSuchProcess:
        return 0, 0
    return memory.rss, memory.rss - memory.shared
