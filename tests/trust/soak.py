"""Short jobs by the thousand with the window open: `python -m tests.trust.soak --jobs 2000 --minutes 60`.

Three kinds of jobs take turns: one run with the fidelity of a few tokens, one timed product, one count of costs. Each
minute the script reads memory, open files and threads of the window, the job host and the engine. Bars: from the second
tenth of the time to its end memory grows by at most 5 % and handles by at most 2; every job is done; nothing blocks
the main thread for over 100 ms.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from typing import Any

from tests.trust.attack import options, verdict

BARS = {"memory_percent": 5.0, "handles": 2}
DIFFERENT = 60
"""Different jobs, a third of each kind. They are computed again and again, so that the results in the window do not
grow: a stored run takes some 20 KB of it."""
_PATIENCE_SECONDS = 120.0


class Soak:
    """The window with a job submitted at each interval, in the event loop of the process."""

    def __init__(self, application: Any, jobs: int, seconds: float) -> None:
        import psutil
        from PySide6.QtCore import QTimer

        self._application, self._jobs = application, jobs
        self._bench = application.workbench
        self._process = psutil.Process()
        self._submitted = 0
        self.done = self.failed = 0
        self.samples: list[dict[str, dict[str, float]]] = []
        self._bench.jobs.ended.connect(self._on_ended)
        self._submitting = QTimer(application, interval=round(1000 * seconds / jobs))
        self._submitting.timeout.connect(self._submit)
        self._sampling = QTimer(application, interval=round(1000 * seconds / 60))
        self._sampling.timeout.connect(self._sample)

    @property
    def over(self) -> bool:
        """True once all jobs have ended."""
        return self.done + self.failed >= self._jobs

    def start(self) -> None:
        """Begin to submit."""
        self._submitting.start()
        self._sampling.start()

    def stop(self) -> None:
        """Stop the timers after a last sample."""
        self._submitting.stop()
        self._sampling.stop()
        self._sample()

    def _submit(self) -> None:
        from wina_core.jobs import CostJob, EvaluateJob, LatencyJob, PendingRun
        from wina_core.specs import Configuration, EvaluationSpec, MethodSpec, ModelSource, RunSpec, TextSpec
        from wina_core.specs.latency import LatencySpec, Shape
        from wina_core.specs.plans import UniformSparsity
        from wina_core.specs.studies import StudySpec

        if self._submitted == self._jobs:
            self._submitting.stop()
            return
        number, self._submitted = self._submitted, self._submitted + 1
        demo = ModelSource(location="demo", dtype="float32")
        plan = UniformSparsity(sparsity=(number % DIFFERENT) / 100)
        if number % 3 == 0:
            text = TextSpec(source="demo:heldout", tokens=64, sequence=64)
            evaluation = EvaluationSpec(fidelity=text, seed=number % DIFFERENT)
            run = RunSpec(model=demo, method=MethodSpec(name="wina"), plan=plan, evaluation=evaluation)
            study = StudySpec(name="soak", models=(demo,), configurations=(Configuration(),))
            self._bench.store.write(lambda store: store.save_study(study, [run]), print)
            pending = PendingRun(spec=run, units=run.evaluation.units)
            self._bench.submit(EvaluateJob(runs=(pending,)), f"Run {number}")
        elif number % 3 == 1:
            spec = LatencySpec(
                shapes=(Shape(outputs=64 + number % DIFFERENT, inputs=64),), batches=(1,), dtypes=("float32",),
                methods=("dense",), backends=("reference",), sparsities=(0.5,), device="cpu", repetitions=1,
            )  # fmt: skip
            self._bench.submit(LatencyJob(spec=spec), f"Product {number}")
        else:
            self._bench.submit(CostJob(model=demo, method=MethodSpec(name="wina"), plan=plan), f"Cost {number}")

    def _on_ended(self, job_id: str) -> None:
        entry = self._bench.jobs[job_id]
        self.done += entry.phase == "done"
        self.failed += entry.phase != "done"
        if entry.phase != "done":
            print(entry.title, entry.error, file=sys.stderr)

    def _sample(self) -> None:
        processes = {"window": self._process}
        for child in self._process.children(recursive=True):
            processes["engine" if child.pid == self._bench.engine_pid else "host"] = child
        self.samples.append({name: _reading(process) for name, process in processes.items()})
        print(json.dumps({"done": self.done, **self.samples[-1]}), file=sys.stderr, flush=True)


def _reading(process: Any) -> dict[str, float]:
    """Return own memory, open files and threads; pages of libraries count for whoever else maps them."""
    memory = process.memory_full_info().uss / 1e6
    return {"megabytes": round(memory, 1), "handles": process.num_fds(), "threads": process.num_threads()}


def growth(samples: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Return by process the growth of memory in percent, and of handles, from the second tenth to the last tenth."""
    tenth = max(1, len(samples) // 10)
    first, last = samples[tenth : 2 * tenth], samples[-tenth:]

    def middle(some: list[dict[str, dict[str, float]]], process: str, kind: str) -> float:
        return statistics.median(sample[process][kind] for sample in some if process in sample)

    found = {}
    for process in samples[-1]:
        memory = 100 * (middle(last, process, "megabytes") / middle(first, process, "megabytes") - 1)
        handles = middle(last, process, "handles") - middle(first, process, "handles")
        found[process] = {"memory_percent": round(memory, 2), "handles": round(handles, 1)}
    return found


def soak(jobs: int, minutes: float) -> dict[str, Any]:
    """Return the report of a soak in this process, which must be fresh."""
    from PySide6.QtWidgets import QApplication
    from wina_app.application import Application
    from wina_app.services.process import configure_malloc
    from wina_app.services.settings import Settings

    from tests.benchmarks.event_loop import wait
    from tests.wina_app.stall_watchdog import StallWatchdog

    configure_malloc()  # as the program does
    app = QApplication([])
    app.setQuitOnLastWindowClosed(False)
    application = Application(app, None, Settings())
    application.window.resize(1280, 800)
    application.start(page="results")
    wait(app, lambda: application.workbench.environment is not None)
    soaking, watchdog = Soak(application, jobs, 60 * minutes), StallWatchdog(application)
    watchdog.start()
    soaking.start()
    begun = time.monotonic()
    wait(app, lambda: soaking.over, longest_s=60 * minutes + _PATIENCE_SECONDS)
    soaking.stop()
    watchdog.stop()
    application.window.close()
    wait(app, lambda: bool(application.window.has_stopped))
    grown = growth(soaking.samples)
    return {
        "jobs": jobs,
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "done": soaking.done,
        "failed": soaking.failed,
        "stalls": [stall.split(", here")[0] for stall in watchdog.stalls],
        "growth": grown,
        "first": soaking.samples[0],
        "last": soaking.samples[-1],
        "stacks": watchdog.stalls[:3],
    }


def main() -> int:
    """Run a soak in a home of its own, print its report, and return the exit status."""
    given = options(__doc__, jobs=2000, minutes=60.0)
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"QT_QPA_PLATFORM": "offscreen", "WINA_HOME": home, "OMP_NUM_THREADS": "1"}
        os.environ.pop("WINA_DATABASE", None)
        report = soak(given.jobs, given.minutes)
    faults = [
        f"{kind} of the {process}"
        for process, grown in report["growth"].items()
        for kind, bar in BARS.items()
        if grown[kind] > bar
    ]
    faults += ["jobs"] * (report["done"] < report["jobs"]) + ["stalls"] * bool(report["stalls"])
    return verdict("soak", report, faults)


if __name__ == "__main__":
    sys.exit(main())
