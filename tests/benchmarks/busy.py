"""The window while an engine rotates a model larger than memory: stalls of its event loop, and memory of its process.

    python tests/benchmarks/busy.py FOLDER [--memory 8GB] [--seconds 120] [--out FILE]

A timer of 10 ms runs in the window's event loop; a stall is the time between two of its ticks beyond that. The engine
is another process and is not counted. Bars: no stall over 100 ms, memory at most 5 MB above that of the idle window.

Expected before it was measured: the engine's messages, ten a second at most, take a millisecond each; on two cores that
the engine keeps busy, the scheduler adds some 10 ms.
"""

import argparse
import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from event_loop import wait

from wina_core.compute.session.environment import environment
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.jobs import RotateJob
from wina_core.model_info.resolve import resolve
from wina_core.specs import ModelSource, RotationSpec

STALL_S, GROWTH_MB = 0.1, 5.0
RESULTS = Path(__file__).parent / "results"
_TICK_S = 0.01
_IDLE_S = 5.0


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="the model's folder")
    parser.add_argument("--memory", default="8GB", help="what the engine may take")
    parser.add_argument("--seconds", type=float, default=120.0, help="time to watch")
    parser.add_argument("--out", type=Path, default=RESULTS / "busy-cpu.json")
    given = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ[MEMORY_VARIABLE] = given.memory
    with TemporaryDirectory() as home:
        os.environ["WINA_HOME"] = home
        stalls, idle, busy = measure(given.folder, given.seconds, Path(home))
    here = environment()
    content = {
        "benchmark": "busy",
        "hardware": here.hardware,
        "versions": here.versions,
        "seconds": given.seconds,
        "bars": [
            {"bar": "longest stall, s", "wanted": STALL_S, "measured": max(stalls), "met": max(stalls) <= STALL_S},
            {"bar": "growth, MB", "wanted": GROWTH_MB, "measured": busy - idle, "met": busy - idle <= GROWTH_MB},
        ],
        "idle_megabytes": idle,
        "busy_megabytes": busy,
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(content["bars"], indent=1))


def measure(folder: str, seconds: float, home: Path) -> tuple[list[float], float, float]:
    """Return the stalls in seconds, and the megabytes of this process before the job and at most during it."""
    from PySide6.QtCore import QTimer
    from PySide6.QtWidgets import QApplication
    from wina_app.application import Application
    from wina_app.services.settings import Settings

    app = QApplication([])
    app.setQuitOnLastWindowClosed(False)
    application = Application(app, str(home / "results.sqlite"), Settings(home / "window.json"))
    application.start(page="rotation")
    _rest(app, _IDLE_S)
    idle = _megabytes()
    job = application.workbench.submit(
        RotateJob(model=resolve(ModelSource(location=folder)), rotation=RotationSpec()), "Busy"
    )
    _rest(app, _IDLE_S)  # the job has begun
    stalls, memory, last = [0.0], [idle], [time.perf_counter()]

    def tick() -> None:
        now = time.perf_counter()
        stalls.append(now - last[0] - _TICK_S)
        last[0] = now

    ticks, readings = QTimer(interval=round(1000 * _TICK_S)), QTimer(interval=1000)
    ticks.timeout.connect(tick)
    readings.timeout.connect(lambda: memory.append(_megabytes()))
    ticks.start()
    readings.start()
    QTimer.singleShot(round(1000 * seconds), app.exit)  # quitting closes the window, which asks
    last[0] = time.perf_counter()
    app.exec()
    ticks.stop()
    readings.stop()
    application.workbench.cancel(job)
    wait(app, lambda: not application.workbench.jobs[job].active)
    application.window.close()
    wait(app, lambda: bool(application.window.has_stopped))
    return stalls, idle, max(memory)


def _rest(app: object, seconds: float) -> None:
    end = time.monotonic() + seconds
    wait(app, lambda: time.monotonic() > end)


def _megabytes() -> float:
    return float(psutil.Process().memory_info().rss) / 1e6


if __name__ == "__main__":
    main()
