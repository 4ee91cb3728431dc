"""Cost of a rotation and of an evaluation in streaming mode, against layers, hidden size, tokens and configurations.

    python kernels/benchmarks/run.py scaling
    python kernels/benchmarks/run.py scaling --only sharing

Random Llama-shaped models in bfloat16 whose weights stay in their files, each in an empty cache. The exponent is the
slope of log time against log size over four sizes. At 1.1 billion parameters, one and five configurations that share
the passes are compared at four lengths of the text.

Expected: exponents of at most 1.1 for layers, tokens and configurations; of the hidden size 2 for an evaluation, whose
products grow so, and 2 to 3 for a rotation, whose basis multiplies every weight. Five configurations are six lanes with
the dense model's, one is two: 3 times the time for a long text, whose products take all of it, and less the shorter the
text, for which the weights are read and checked. The aim is at most 2.5.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from random_folders import SHAPES, llama, write_random_folder

from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.environment import environment
from wina_core.compute.session.model_session import Session
from wina_core.engine.server.run_job import run_job
from wina_core.files.memory import MEMORY_VARIABLE
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

RESULTS = Path(__file__).parent / "results"
_LIMIT = "1GB"
"""Memory that keeps every model in its files."""
_MOST = 2.5
"""Bar: time of five configurations over that of one."""


@dataclass(frozen=True)
class Case:
    """Sizes of one measurement."""

    layers: int = 8
    hidden: int = 1024
    tokens: int = 4096
    configurations: int = 2

    @property
    def config(self) -> dict[str, Any]:
        """Return a Llama's config with heads of 64 and four times as many query as key-value heads."""
        heads = self.hidden // 64
        return llama(self.hidden, 3 * self.hidden, self.layers, heads, heads // 4, 8192)


SIZES = {
    "layers": (4, 8, 16, 32),
    "hidden": (512, 1024, 1536, 2048),
    "tokens": (2048, 4096, 8192, 16384),
    "configurations": (1, 2, 4, 8),
}
TOY = {"layers": (1, 2), "configurations": (1, 2)}
LENGTHS = (512, 1024, 2048, 4096)
"""Tokens of the text at which one and five configurations are compared."""
PARTS = ("costs", "sharing")


def main(arguments: Sequence[str]) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="run.py scaling", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS / "scaling-cpu.json")
    parser.add_argument("--toy", action="store_true", help="tiny sizes, to see that it works")
    parser.add_argument("--only", choices=PARTS, help="measure one part, and keep the other of the file")
    given = parser.parse_args(arguments)
    os.environ[MEMORY_VARIABLE] = "100MB" if given.toy else _LIMIT
    here = environment()
    earlier = json.loads(given.out.read_text(encoding="utf-8")) if given.only else {"measured_on": {}}
    content: dict[str, Any] = {"benchmark": "scaling", "measured_on": earlier["measured_on"]}
    for part, measure in zip(PARTS, (_costs, _sharing), strict=True):
        if given.only in (None, part):
            content[part] = measure(given.toy)
            content["measured_on"][part] = {"hardware": here.hardware, "versions": here.versions}
        else:
            content[part] = earlier[part]
    given.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _costs(toy: bool) -> dict[str, Any]:
    """Return seconds and exponents against every size."""
    base = Case(layers=1, hidden=256, tokens=512) if toy else Case()
    known: dict[Case, dict[str, float]] = {}
    found: dict[str, Any] = {}
    for name, sizes in (TOY if toy else SIZES).items():
        times = []
        for size in sizes:
            case = replace(base, **{name: size})
            if case not in known:
                known[case] = _measure(case)
            times.append(known[case])
            print(f"{name} {size}: " + ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in times[-1].items()))
        exponents = {stage: _exponent(sizes, [each[stage] for each in times]) for stage in times[0]}
        print(f"{name}: " + ", ".join(f"{stage} ~ {name}^{exponent:.2f}" for stage, exponent in exponents.items()))
        found[name] = {"sizes": sizes, "seconds": times, "exponents": exponents}
    return found


def _sharing(toy: bool) -> dict[str, Any]:
    """Return the seconds of one and of five configurations at each length of the text, and their ratios."""
    shape = SHAPES["toy" if toy else "1.1b"]
    rows = []
    for tokens in LENGTHS[:1] if toy else LENGTHS:
        one, five = (_configurations(shape, tokens, count) for count in (1, 5))
        met = "met" if five / one <= _MOST else "MISSED"
        print(f"{tokens} tokens: five {five:.0f} s, one {one:.0f} s: {five / one:.2f}, at most {_MOST} {met}")
        rows.append({"tokens": tokens, "one_seconds": one, "five_seconds": five, "ratio": five / one})
    return {"at_most": _MOST, "lengths": rows}


def _measure(case: Case) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        write_random_folder(case.config, folder)
        os.environ["WINA_HOME"] = f"{scratch}/home"
        source = ModelSource(location=str(folder))
        rotation = RotationSpec(text=TextSpec(tokens=case.tokens))
        start = time.perf_counter()
        Session().prepare(source, rotation, NullReporter())
        rotated = time.perf_counter()
        _evaluate(source, rotation, case.tokens, case.configurations)
        return {"rotation": rotated - start, "evaluation": time.perf_counter() - rotated}


def _configurations(shape: dict[str, Any], tokens: int, count: int) -> float:
    """Return the seconds of the dense model's fidelity pass with a number of gated configurations."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        write_random_folder(shape, folder)
        os.environ["WINA_HOME"] = f"{scratch}/home"
        start = time.perf_counter()
        _evaluate(ModelSource(location=str(folder)), NO_ROTATION, tokens, count)
        return time.perf_counter() - start


def _evaluate(source: ModelSource, rotation: RotationSpec, tokens: int, configurations: int) -> None:
    """Measure the fidelity of some sparsities together; raise RuntimeError if one fails."""
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


def _exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
