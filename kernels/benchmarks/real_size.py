"""Models of real size on this machine: time and peak memory of every stage, of a random model in bfloat16.

    python kernels/benchmarks/run.py real-size 1.1b
    python kernels/benchmarks/run.py real-size 6.9b --memory 8GB
    python kernels/benchmarks/run.py real-size 6.9b --memory 8GB --kill-every 240
    python kernels/benchmarks/run.py real-size 1.1b --sparsity 0.5

Stages, each a command as a user types it, in a folder of results of its own: global rotation with activations; fidelity
of the dense model and of WINA at 25, 40, 50 and 65 % on 4,096 tokens; decode timing at 50 % (--decode). The peak is the
largest resident memory of the process, pages of files included. The estimate is what the terminal shows as left. With
--kill-every, a command that takes longer is killed without warning and typed again, until one ends by itself; the KL
divergences, which are written too, show that nothing was lost or counted twice.

Expected on two cores: 1.1 B in 15 minutes in all, at most 1.35 times the weights at the peak; 6.9 B in 8 GB with at
most 1.5 times the time of an unlimited run; estimates at most 25 % off when half of the time is over.
"""

import argparse
import json
import math
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from random_folders import SHAPES, write_random_folder

from wina_core.compute.session.environment import environment
from wina_core.files.memory import MEMORY_VARIABLE
from wina_core.store import MetricFilter, Store

HERE = Path(__file__).parent
_INTERVAL = 0.1
_LEFT = re.compile(r"(?:(\d+):)?(\d+):(\d\d) left")
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
    estimated_at_half: float | None
    """Remaining seconds that were shown when half of the time was over, as a share of those that it took."""
    kills: int = 0
    """How often it was killed and started again; seconds are those of all attempts."""


def main(arguments: Sequence[str]) -> None:
    """Measure the stages of one model and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--folder", type=Path, help="the model's folder, written unless it is there; else temporary")
    parser.add_argument("--memory", help="limit, such as 8GB")
    parser.add_argument("--sparsity", action="append", help="instead of 25, 40, 50 and 65 %%; repeatable")
    parser.add_argument("--decode", action="store_true", help="also time decoding")
    parser.add_argument("--kill-every", type=float, help="seconds after which a command is killed and started again")
    parser.add_argument("--out", type=Path, help="the file to write")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch) / given.shape
        if not (folder / "model.safetensors.index.json").exists():
            write_random_folder(SHAPES[given.shape], folder)
        size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        variables = {"WINA_HOME": f"{scratch}/results", "WINA_DATABASE": f"{scratch}/results.sqlite"}
        variables |= {MEMORY_VARIABLE: given.memory} if given.memory else {}
        stages = []
        for name, words in _commands(folder, given.sparsity or SPARSITIES, given.decode):
            stages.append(_run_through_kills(name, words, variables, given.kill_every or math.inf))
            print(_line(stages[-1], size), flush=True)
        divergences = _divergences(variables["WINA_DATABASE"])
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
            "kill_every": given.kill_every,
            "sparsities": [float(each) for each in given.sparsity or SPARSITIES],
        },
        "divergences": divergences,
        "stages": [asdict(stage) for stage in stages],
        "seconds": sum(stage.seconds for stage in stages),
        "peak_bytes": peak,
        "peak_over_weights": peak / size,
    }
    parts = (given.shape, given.memory and f"in-{given.memory}", given.kill_every and "killed")
    suffix = "-".join(filter(None, parts))
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


def _line(stage: Stage, size: int) -> str:
    text = f"{stage.name}: {stage.seconds:.0f} s, peak {stage.peak_bytes / size:.2f} of the weights"
    if stage.kills:
        text = f"{text}, killed {stage.kills} times"
    return text if stage.estimated_at_half is None else f"{text}, estimate at half {stage.estimated_at_half:.2f}"


def _divergences(database: str) -> dict[str, float]:
    """Return the mean KL divergence of each sparsity that was measured."""
    with Store(database) as store:
        rows = store.metric_rows(MetricFilter())
    return {f"{row.target_sparsity:g}": row.value for row in rows if row.metric == "kl"}


def _run_through_kills(name: str, words: Sequence[str], variables: dict[str, str], kill_every: float) -> Stage:
    """Run a command until it ends by itself, killing those that take longer: each time a quarter later."""
    attempts: list[Stage] = []
    while not attempts or attempts[-1].kills:
        attempts.append(_run(name, words, variables, kill_every * 1.25 ** len(attempts)))
    return Stage(
        name,
        sum(each.seconds for each in attempts),
        max(each.peak_bytes for each in attempts),
        max(each.anonymous_bytes for each in attempts),
        attempts[0].estimated_at_half if len(attempts) == 1 else None,
        len(attempts) - 1,
    )


def _run(name: str, words: Sequence[str], variables: dict[str, str], kill_after: float) -> Stage:
    """Run a command in a terminal of its own and follow its memory; raise RuntimeError if it fails.

    After so many seconds it is killed, with its children.
    """
    start = time.perf_counter()
    main_end, own_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "wina_core.cli", *words],
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200", **variables},
        stdout=own_end,
        stderr=own_end,
    )
    os.close(own_end)
    shown: list[tuple[float, str]] = []
    reading = threading.Thread(target=_read, args=(main_end, shown))
    reading.start()
    peak = anonymous = 0
    killed = False
    while process.poll() is None:
        found = [_resident(each) for each in (process.pid, *_children(process.pid))]
        peak = max(peak, sum(whole for whole, _ in found))
        anonymous = max(anonymous, sum(own for _, own in found))
        if time.perf_counter() - start > kill_after:
            for pid in (*_children(process.pid), process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed = process.wait() == -signal.SIGKILL
            break
        time.sleep(_INTERVAL)
    end = time.perf_counter()
    reading.join()
    os.close(main_end)
    if process.returncode and not killed:
        raise RuntimeError("".join(text for _, text in shown)[-2000:])
    return Stage(name, end - start, peak, anonymous, _estimated_at_half(shown, start, end), kills=int(killed))


def _read(file: int, shown: list[tuple[float, str]]) -> None:
    """Collect what a terminal shows, with the time of it, until its other end is closed."""
    with suppress(OSError):  # Linux's way to say so
        while text := os.read(file, 65536):
            shown.append((time.perf_counter(), text.decode(errors="replace")))


def _estimated_at_half(shown: Sequence[tuple[float, str]], start: float, end: float) -> float | None:
    """Return the last estimate that was shown in the first half of the time, over what was left then."""
    found = [
        (int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds), at)
        for at, text in shown
        if at <= (start + end) / 2
        for hours, minutes, seconds in _LEFT.findall(text)[-1:]
    ]
    return found[-1][0] / (end - found[-1][1]) if found else None


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
