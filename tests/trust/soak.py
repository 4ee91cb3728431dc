"""Short jobs by the thousand with the window open: `python -m tests.trust.soak --jobs 2000 --minutes 60`.

Three kinds of jobs take turns: one run with the fidelity of a few tokens, one timed product, one count of costs. The
script reads memory, open files and threads of the window and its child processes sixty times. Bars: from the second
tenth of the time to its end memory grows by at most 5 % and handles by at most 2; every job is done; nothing blocks the
main thread for over 100 ms.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from typing import Any

from tests.trust.attack import options, verdict

BARS = {"megabytes": 5.0, "handles": 2}
"""Growth: percent of memory, number of handles."""
DIFFERENT = 60
"""Different jobs, a third of each kind. They are computed again and again, so that the results in the window do not
grow: a stored run takes some 20 KB of it."""
SAMPLES = 60
_PATIENCE_SECONDS = 120.0
Sample = dict[str, dict[str, float]]
"""Memory, handles and threads by process."""


def submit(bench: Any, number: int) -> None:
    """Submit the job of a number."""
    from wina_core.jobs import CostJob, EvaluateJob, LatencyJob, PendingRun
    from wina_core.specs import Configuration, EvaluationSpec, MethodSpec, ModelSource, RunSpec, TextSpec
    from wina_core.specs.latency import LatencySpec, Shape
    from wina_core.specs.plans import UniformSparsity
    from wina_core.specs.studies import StudySpec

    demo = ModelSource(location="demo", dtype="float32")
    plan = UniformSparsity(sparsity=(number % DIFFERENT) / 100)
    if number % 3 == 0:
        text = TextSpec(source="demo:heldout", tokens=64, sequence=64)
        evaluation = EvaluationSpec(fidelity=text, seed=number % DIFFERENT)
        run = RunSpec(model=demo, method=MethodSpec(name="wina"), plan=plan, evaluation=evaluation)
        study = StudySpec(name="soak", models=(demo,), configurations=(Configuration(),))
        bench.store.write(lambda store: store.save_study(study, [run]), print)
        pending = PendingRun(spec=run, units=run.evaluation.units)
        bench.submit(EvaluateJob(runs=(pending,)), f"Run {number}")
    elif number % 3 == 1:
        spec = LatencySpec(
            shapes=(Shape(outputs=64 + number % DIFFERENT, inputs=64),), batches=(1,), dtypes=("float32",),
            methods=("dense",), backends=("reference",), sparsities=(0.5,), device="cpu", repetitions=1,
        )  # fmt: skip
        bench.submit(LatencyJob(spec=spec), f"Product {number}")
    else:
        bench.submit(CostJob(model=demo, method=MethodSpec(name="wina"), plan=plan), f"Cost {number}")


def sample(bench: Any) -> Sample:
    """Return own memory, since pages of libraries count for whoever else maps them, open files and threads."""
    import psutil

    process = psutil.Process()
    processes = {"window": process}
    for child in process.children(recursive=True):
        processes["engine" if child.pid == bench.engine_pid else "host"] = child
    return {
        name: {
            "megabytes": round(one.memory_full_info().uss / 1e6, 1),
            "handles": one.num_fds(),
            "threads": one.num_threads(),
        }
        for name, one in processes.items()
    }


def growth(samples: list[Sample]) -> Sample:
    """Return by process the growth of memory in percent, and of handles, from the second tenth to the last tenth."""
    tenth = max(1, len(samples) // 10)

    def middle(some: list[Sample], process: str, kind: str) -> float:
        return statistics.median(one[process][kind] for one in some if process in one)

    found: Sample = {}
    for process in samples[-1]:
        first, last = (
            {kind: middle(some, process, kind) for kind in BARS}
            for some in (samples[tenth : 2 * tenth], samples[-tenth:])
        )
        memory = 100 * (last["megabytes"] / first["megabytes"] - 1)
        found[process] = {"megabytes": round(memory, 2), "handles": last["handles"] - first["handles"]}
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
    bench, ended, samples = application.workbench, Counter[str](), []
    bench.jobs.ended.connect(lambda job: ended.update([bench.jobs[job].phase]))
    application.window.resize(1280, 800)
    application.start(page="results")
    wait(app, lambda: bench.environment is not None)
    watchdog = StallWatchdog(application)
    watchdog.start()
    begun = time.monotonic()
    for number in range(jobs):
        due = begun + 60 * minutes * number / jobs
        wait(app, lambda due=due: time.monotonic() >= due, longest_s=60 * minutes + _PATIENCE_SECONDS)
        submit(bench, number)
        if number % max(1, jobs // SAMPLES) == 0:
            samples.append(sample(bench))
            print(json.dumps({"ended": ended, **samples[-1]}), file=sys.stderr, flush=True)
    wait(app, lambda: ended.total() >= jobs, longest_s=_PATIENCE_SECONDS)
    samples.append(sample(bench))
    watchdog.stop()
    application.window.close()
    wait(app, lambda: bool(application.window.has_stopped))
    return {
        "jobs": jobs,
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "done": ended["done"],
        "growth": growth(samples),
        "first": samples[0],
        "last": samples[-1],
        "stalls": watchdog.stalls[:3],
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
