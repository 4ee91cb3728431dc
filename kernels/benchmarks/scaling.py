"""Time and memory of large random models on this machine: against their sizes, and of real size.

    python kernels/benchmarks/run.py scaling
    python kernels/benchmarks/run.py real-size 1.1b
    python kernels/benchmarks/run.py real-size 6.9b --memory 8GB --kill-every 240

scaling: cost of a rotation and of an evaluation in streaming mode, against layers, hidden size, tokens and
configurations. Random Llama-shaped models in bfloat16 whose weights stay in their files, each in an empty cache. The
exponent is the slope of log time against log size over four sizes. At 1.1 billion parameters, one and five
configurations that share the passes are compared at four lengths of the text.

Expected: exponents of at most 1.1 for layers, tokens and configurations; of the hidden size 2 for an evaluation, whose
products grow so, and 2 to 3 for a rotation, whose basis multiplies every weight. Five configurations are six lanes with
the dense model's, one is two: 3 times the time for a long text, whose products take all of it, and less the shorter the
text, for which the weights are read and checked. The aim is at most 2.5.

real-size: time and peak memory of every stage, of a random model in bfloat16. Stages, each a command as a user types
it, in a folder of results of its own: global rotation with activations; fidelity of the dense model and of WINA at 25,
40, 50 and 65 % on 4,096 tokens; decode timing at 50 %. The peak is the largest resident memory of the process, pages of
files included. With --kill-every, a command that takes longer is killed without warning and typed again, until one ends
by itself; the KL divergences, which are written too, show that nothing was lost or counted twice.

Expected on two cores: 1.1 B in 15 minutes in all, at most 1.35 times the weights at the peak; 6.9 B in 8 GB with at
most 1.5 times the time of an unlimited run.
"""

import argparse
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from comparing import write_results
from random_models import SHAPES, llama, write_random_folder

from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.model_session import Session
from wina_core.engine.server.run_job import run_job
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.jobs import EvaluateJob, Event, PendingRun, RunFailed
from wina_core.specs import (
    FIDELITY,
    NO_ROTATION,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.plans import UniformSparsity
from wina_core.store import MetricFilter, Store

RESULTS = Path(__file__).parent / "results"
_LIMIT = "1GB"
"""Memory that keeps every model in its files."""
_MOST = 2.5
"""Bar: time of five configurations over that of one."""
_INTERVAL = 0.1
_FIDELITY = ("--method", "wina", "--fidelity", "--tokens", "4096", "--yes")


@dataclass(frozen=True)
class Case:
    """Sizes of one measurement."""

    layers: int = 8
    hidden: int = 1024
    tokens: int = 4096
    configurations: int = 2


SIZES = {
    "layers": (4, 8, 16, 32),
    "hidden": (512, 1024, 1536, 2048),
    "tokens": (2048, 4096, 8192, 16384),
    "configurations": (1, 2, 4, 8),
}
TOY = {"layers": (1, 2), "configurations": (1, 2)}
LENGTHS = (512, 1024, 2048, 4096)
"""Tokens of the text at which one and five configurations are compared."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="run.py scaling", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS / "scaling-cpu.json")
    parser.add_argument("--toy", action="store_true", help="tiny sizes, to see that it works")
    options = parser.parse_args(arguments)
    os.environ[MEMORY_VARIABLE] = "100MB" if options.toy else _LIMIT
    write_results(options.out, "scaling", {"costs": _costs(options.toy), "sharing": _sharing(options.toy)})


def _costs(toy: bool) -> dict[str, Any]:
    """Return seconds and exponents against every size."""
    base = Case(layers=1, hidden=256, tokens=512) if toy else Case()
    results: dict[str, Any] = {}
    for name, sizes in (TOY if toy else SIZES).items():
        seconds = [_measure(replace(base, **{name: size})) for size in sizes]
        exponents = {
            stage: float(np.polyfit(np.log(sizes), np.log([times[stage] for times in seconds]), 1)[0])
            for stage in seconds[0]
        }
        print(f"{name}: " + ", ".join(f"{stage} ~ {name}^{exponent:.2f}" for stage, exponent in exponents.items()))
        results[name] = {"sizes": sizes, "seconds": seconds, "exponents": exponents}
    return results


def _sharing(toy: bool) -> dict[str, Any]:
    """Return the seconds of one and of five configurations at each length of the text, and their ratios."""
    shape = SHAPES["toy" if toy else "1.1b"]
    rows = []
    for tokens in LENGTHS[:1] if toy else LENGTHS:
        seconds = []
        for count in (1, 5):
            with _fresh_model(shape) as source:
                start = time.perf_counter()
                _evaluate(source, NO_ROTATION, tokens, count)
                seconds.append(time.perf_counter() - start)
        one, five = seconds
        print(f"{tokens} tokens: five {five:.0f} s, one {one:.0f} s: {five / one:.2f}, at most {_MOST}")
        rows.append({"tokens": tokens, "one_seconds": one, "five_seconds": five, "ratio": five / one})
    return {"at_most": _MOST, "lengths": rows}


def _measure(case: Case) -> dict[str, float]:
    heads = case.hidden // 64
    with _fresh_model(llama(case.hidden, 3 * case.hidden, case.layers, heads, heads // 4, 8192)) as source:
        rotation = RotationSpec(text=TextSpec(tokens=case.tokens))
        start = time.perf_counter()
        Session().prepare(source, rotation, NullReporter())
        rotated = time.perf_counter()
        _evaluate(source, rotation, case.tokens, case.configurations)
        return {"rotation": rotated - start, "evaluation": time.perf_counter() - rotated}


@contextmanager
def _fresh_model(shape: dict[str, Any]) -> Iterator[ModelSource]:
    """Yield a random model of a config, with an empty cache."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        write_random_folder(shape, folder)
        os.environ["WINA_HOME"] = f"{scratch}/home"
        yield ModelSource(location=str(folder))


def _evaluate(source: ModelSource, rotation: RotationSpec, tokens: int, configurations: int) -> None:
    """Measure the fidelity of several sparsities in one job; raise RuntimeError if one fails."""
    runs = [
        RunSpec(
            model=source,
            rotation=rotation,
            method=MethodSpec(name="wina"),
            plan=UniformSparsity(sparsity=0.3 + 0.4 * index / configurations),
            evaluation=EvaluationSpec(tasks=(), fidelity=TextSpec(tokens=tokens)),
        )
        for index in range(configurations)
    ]
    events: list[Event] = []
    job = EvaluateJob(runs=tuple(PendingRun(spec=run, units=(FIDELITY,)) for run in runs))
    run_job(job, Session(), events.append, NullReporter())
    for event in events:
        if isinstance(event, RunFailed):
            raise RuntimeError(event.error)


@dataclass
class ScalingStage:
    """A finished command."""

    name: str
    seconds: float = 0.0
    """Sum over all attempts."""
    peak_bytes: int = 0
    """Largest resident memory."""
    kills: int = 0


def main_real_size(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="run.py real-size", description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--memory", help="limit, such as 8GB")
    parser.add_argument("--sparsity", action="append", help="instead of 25, 40, 50 and 65 %%; repeatable")
    parser.add_argument("--kill-every", type=float, help="seconds after which a command is killed and started again")
    parser.add_argument("--out", type=Path, help="the file to write")
    options = parser.parse_args(arguments)
    sparsities = options.sparsity or ["0.25", "0.4", "0.5", "0.65"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / options.shape
        write_random_folder(SHAPES[options.shape], folder)
        size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        variables = {"WINA_HOME": f"{scratch}/results", "WINA_DATABASE": f"{scratch}/results.sqlite"}
        variables |= {MEMORY_VARIABLE: options.memory} if options.memory else {}
        gated = ["--rotation", "global", *(word for sparsity in sparsities for word in ("--sparsity", sparsity))]
        stages = [
            _run_through_kills(name, words, variables, options.kill_every or math.inf)
            for name, words in (
                ("rotate", ["rotate", str(folder), "--rotation", "global"]),
                ("fidelity", ["eval", "--model", str(folder), *gated, *_FIDELITY]),
                ("decode", ["latency", str(folder), "--decode", "--sparsity", "0.5"]),
            )
        ]
        with Store(variables["WINA_DATABASE"]) as store:
            rows = store.metric_rows(MetricFilter())
    peak, seconds = max(stage.peak_bytes for stage in stages), sum(stage.seconds for stage in stages)
    content = {
        "setting": {
            "shape": options.shape,
            "weights_bytes": size,
            "memory": options.memory,
            "kill_every": options.kill_every,
            "sparsities": [float(sparsity) for sparsity in sparsities],
        },
        "divergences": {f"{row.target_sparsity:g}": row.value for row in rows if row.metric == "kl"},
        "stages": [asdict(stage) for stage in stages],
        "seconds": seconds,
        "peak_bytes": peak,
        "peak_over_weights": peak / size,
    }
    name_parts = (options.shape, options.memory and f"in-{options.memory}", options.kill_every and "killed")
    print(f"{seconds:.0f} s in all, peak {peak / 1e9:.2f} GB, {peak / size:.2f} of the weights", flush=True)
    write_results(options.out or RESULTS / f"real-size-{'-'.join(filter(None, name_parts))}.json", "real-size", content)


def _run_through_kills(name: str, words: Sequence[str], variables: dict[str, str], kill_every: float) -> ScalingStage:
    """Run a command until it ends by itself; kill it after `kill_every` seconds, each time a quarter later."""
    stage = ScalingStage(name)
    # Later each time, so that a command whose least resumable work takes longer ends at last.
    while not _run(stage, words, variables, kill_every * 1.25**stage.kills):
        stage.kills += 1
    print(f"{name}: {stage.seconds:.0f} s, peak {stage.peak_bytes / 1e9:.2f} GB, {stage.kills} kills", flush=True)
    return stage


def _run(stage: ScalingStage, words: Sequence[str], variables: dict[str, str], kill_after: float) -> bool:
    """Run a command, follow its memory and return whether it ended by itself; raise RuntimeError if it fails.

    After so many seconds it is killed, with its children.
    """
    start, killed = time.perf_counter(), False
    # A file: nothing drains a pipe meanwhile, and a full one would stop the command.
    with tempfile.TemporaryFile() as output:
        command = [sys.executable, "-m", "wina_core.cli", *words]
        process = psutil.Popen(command, env=os.environ | variables, stdout=output, stderr=subprocess.STDOUT)
        while process.poll() is None:
            family, resident = [process], 0
            with suppress(psutil.NoSuchProcess):
                family += process.children(recursive=True)
                resident = sum(member.memory_info().rss for member in family)
            stage.peak_bytes = max(stage.peak_bytes, resident)
            if time.perf_counter() - start > kill_after:
                for member in reversed(family):
                    with suppress(psutil.NoSuchProcess):
                        member.kill()
                killed = process.wait() == -signal.SIGKILL
                break
            time.sleep(_INTERVAL)
        stage.seconds += time.perf_counter() - start
        if process.returncode and not killed:
            output.seek(0)
            raise RuntimeError(output.read().decode(errors="replace")[-2000:])
    return not killed
