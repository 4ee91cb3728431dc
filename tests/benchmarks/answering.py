"""Time from a request to its answer while a study runs: a bad folder, a gate, the playground's first token.

A pool of engines evaluates the demo model in one engine without end; the questions come one by one, as from a window,
and go to the light engine. Bars: 0.2 s, 1 s and 2 s for the median of the repetitions. The folder is checked in
this process, as the window does, on no engine at all. "First question" is the first of each kind after the light engine
was ready: it shows what its preparation left out.

    python tests/benchmarks/answering.py [--out FILE] [--repetitions N] [--preparing SECONDS]
"""

import argparse
import json
import os
import queue
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from wina_core.engine.client.pool import EnginePool, open_engines
from wina_core.errors import WinaError
from wina_core.jobs import (
    Assigned,
    Done,
    EvaluateJob,
    Event,
    Failed,
    GenerateJob,
    InspectGateJob,
    Job,
    Log,
    PendingRun,
    Result,
    RunStarted,
    Submit,
    Token,
)
from wina_core.model_info.model_checks import check_folder
from wina_core.model_info.resolve import local_folder, resolve
from wina_core.records.gates import GateTarget
from wina_core.specs import NO_ROTATION, EvaluationSpec, MethodSpec, ModelSource, RunSpec, TextSpec
from wina_core.specs.generation import CompletionSpec
from wina_core.specs.plans import UniformSparsity

BARS = {"a bad folder": 0.2, "a gate": 1.0, "first token": 2.0}
"""Seconds."""
PATIENCE_S = 300.0
_METHOD = MethodSpec(name="wina")
_PROMPT = "Once upon a time there was a small village at the foot of a mountain."


class Window:
    """The pool of a window, and its events."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.client: EnginePool = open_engines(self._events.put, 1, light=True)
        self._numbers = iter(range(1, 1_000_000))

    def submit(self, job: Job) -> str:
        """Submit a job and return its id."""
        job_id = f"question-{next(self._numbers)}"
        self.client.send(Submit(job_id=job_id, job=job))
        return job_id

    def wait(self, wanted: Callable[[Event], bool]) -> None:
        """Return when an event arrives; raise RuntimeError if a job fails or nothing comes."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            event = self._events.get(timeout=max(0.1, deadline - time.monotonic()))
            if wanted(event):
                return
            if isinstance(event, Failed) or (isinstance(event, Log) and event.level == "error"):
                raise RuntimeError(str(event))

    def seconds(self, job: Job, answers: type[Event]) -> float:
        """Return the time from a job's submission to its first answer, and wait for its end."""
        start = time.perf_counter()
        job_id = self.submit(job)
        self.wait(lambda event: isinstance(event, answers) and getattr(event, "job_id", "") == job_id)
        seconds = time.perf_counter() - start
        self.wait(lambda event: isinstance(event, Done) and event.job_id == job_id)
        return seconds


def refuse(folder: Path) -> float:
    """Return the time of refusing a folder without a model."""
    start = time.perf_counter()
    try:
        source = resolve(ModelSource(location=str(folder)))
        check_folder(local_folder(source) or folder)
    except WinaError:
        return time.perf_counter() - start
    raise RuntimeError("the folder was not refused")


def measure(repetitions: int, preparing: float) -> dict[str, list[float]]:
    """Return the seconds of each kind of question, in order, `preparing` seconds after the engines were ready."""
    demo = resolve(ModelSource(location="demo"))
    gate = InspectGateJob(
        model=demo, rotation=NO_ROTATION, layer=2, projection="down", prompt=_PROMPT,
        gates=(GateTarget(method=_METHOD, target=0.5), GateTarget(method=MethodSpec(name="teal"), target=0.5)),
    )  # fmt: skip
    completions = CompletionSpec(), CompletionSpec(method=_METHOD, plan=UniformSparsity(sparsity=0.5))
    playground = GenerateJob(model=demo, prompt=_PROMPT, new_tokens=16, configurations=completions)
    window = Window()
    found: dict[str, list[float]] = {name: [] for name in BARS}
    try:
        window.submit(_study(demo))
        ready = {"the study": False, "the light engine": False}

        def is_ready(event: Event) -> bool:
            ready["the study"] |= isinstance(event, RunStarted)
            ready["the light engine"] |= isinstance(event, Assigned) and event.light and bool(event.hardware)
            return all(ready.values())

        window.wait(is_ready)
        time.sleep(preparing)
        with TemporaryDirectory() as bad:
            Path(bad, "config.json").write_text("{}")
            for _ in range(repetitions):
                found["a bad folder"].append(refuse(Path(bad)))
                found["a gate"].append(window.seconds(gate, Result))
                found["first token"].append(window.seconds(playground, Token))
    finally:
        window.client.stop()
    return found


def _study(demo: ModelSource) -> EvaluateJob:
    """Return more runs than a measurement waits for."""
    evaluation = EvaluationSpec(fidelity=TextSpec(source="demo:heldout", tokens=65_536))
    runs = [
        RunSpec(model=demo, method=_METHOD, plan=UniformSparsity(sparsity=round(0.01 * step, 2)), evaluation=evaluation)
        for step in range(10, 90)
    ]
    return EvaluateJob(runs=tuple(PendingRun(spec=run, units=run.evaluation.units) for run in runs))


def main() -> None:
    """Measure, print and write."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, help="file of the result")
    arguments.add_argument("--repetitions", type=int, default=12)
    arguments.add_argument("--preparing", type=float, default=30.0, help="seconds for the light engine to prepare")
    options = arguments.parse_args()
    with TemporaryDirectory() as home:
        os.environ["WINA_HOME"] = home
        found = measure(options.repetitions, options.preparing)
    content: dict[str, Any] = {
        "benchmark": "answering",
        "threads": os.cpu_count(),
        "load": os.getloadavg()[0],
        "seconds": {
            name: {
                "median": round(statistics.median(times), 4),
                "worst": round(max(times), 4),
                "first": round(times[0], 4),
                "repetitions": len(times),
            }
            for name, times in found.items()
        },
        "bars": [
            {"bar": name, "wanted": bar, "measured": median, "met": median <= bar}
            for name, bar in BARS.items()
            for median in [statistics.median(found[name])]
        ],
    }
    text = json.dumps(content, indent=1)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
