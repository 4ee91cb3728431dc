"""Time in which the main thread is blocked by a switch of theme, by the making of a page and by its first showing; each
bar is 100 ms.

A window of 1280 x 720 in a process of its own, ten times: it opens on another page each time, makes the others after
the first paint, opens the demo model, shows each page for the first time, and switches between light and dark on each
page. A page is made in steps, between which the event loop runs: its time is that of the longest step. Time in which
the kernel had no processor for the thread is left out, as the stall watchdog of the tests does.
The making of the page that the window opens on is not counted: it comes before the first paint.

    python kernels/benchmarks/run.py appearing
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from event_loop import wait

BAR_MS = 100
WINDOWS = 10
RESULTS = Path(__file__).parent / "results"
_WAITING = Path("/proc/thread-self/schedstat")
"""Linux: nanoseconds on a processor, nanoseconds ready to run without one, time slices."""
Times = dict[str, list[tuple[float, float]]]
"""Milliseconds by action: blocked, and on a processor."""
_IN_ALL = ", all steps"


def run(out: Path | None, toy: bool) -> None:
    """Measure, print and write."""
    from wina_app.pages import PAGES

    from wina_core.compute.session.environment import environment

    found: Times = {}
    for number in range(1 if toy else WINDOWS):
        for action, times in _window(PAGES[(3 * number) % len(PAGES)], "" if toy else "demo").items():
            found.setdefault(action, []).extend(times)
    here = environment()
    actions = {}
    for action, times in sorted(found.items()):
        blocked, processor = zip(*times, strict=True)
        actions[action] = {
            "median_ms": round(statistics.median(blocked), 1),
            "worst_ms": round(max(blocked), 1),
            "median_cpu_ms": round(statistics.median(processor), 1),
            "worst_cpu_ms": round(max(processor), 1),
            "times": len(times),
            "met": None if action.endswith(_IN_ALL) else max(blocked) <= BAR_MS,
        }
    content = {
        "benchmark": "appearing",
        "hardware": here.hardware,
        "versions": here.versions,
        "windows": 1 if toy else WINDOWS,
        "bar_ms": BAR_MS,
        "blocked": actions,
    }
    file = out or RESULTS / "appearing-cpu.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    verdicts = {True: "met", False: "MISSED", None: "no bar"}
    fields = ("median_ms", "worst_ms", "median_cpu_ms", "worst_cpu_ms")
    lines = [
        f"{action:28}{''.join(f'{each[field]:9.1f}' for field in fields)}   {verdicts[each['met']]}"
        for action, each in actions.items()
    ]
    print(
        "\n".join((f"\nblocked, ms{'median':>26}{'worst':>9}{'cpu':>9}{'worst':>9}", *lines, f"-> {file}")), flush=True
    )


def _window(first: str, model: str) -> Times:
    with TemporaryDirectory() as home:
        settings = {"QT_QPA_PLATFORM": "offscreen", "WINA_HOME": home, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, __file__, first, model],
            env=os.environ | settings, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
    times: Times = json.loads(done.stdout.splitlines()[-1])
    return times


def measure(first: str, model: str) -> Times:
    """Milliseconds of each action in this process, whose window opens on the page `first`."""
    from PySide6.QtWidgets import QApplication
    from wina_app.services.process import skip_feature_scan

    skip_feature_scan()  # as the program does
    from wina_app import application as parts
    from wina_app.pages import PAGES
    from wina_app.services.settings import Settings
    from wina_app.style.theme import apply_theme

    app = QApplication([])
    app.setQuitOnLastWindowClosed(False)
    found: Times = {}
    application: Any = parts.Application(app, settings=Settings(Path(os.environ["WINA_HOME"]) / "window.json"))
    window = application.window
    window.resize(1280, 720)
    for key, steps in application.page_steps.items():
        if key != first:
            application.page_steps[key] = _timed_steps(found, key, steps)
    application.start(page=first)
    wait(app, lambda: len(window.pages) == len(PAGES))
    if model:
        application.model.open(model)
        wait(app, lambda: application.workbench.workspace.source is not None)
    _settle(app)
    for key in (*PAGES[1:], PAGES[0]):
        if key != first:
            _time(found, f"first showing of {key}", partial(_show, app, window, key))
        _settle(app)
        for mode in ("dark", "light"):
            _time(found, f"theme on {key}", partial(_switch, app, apply_theme, mode))
            _settle(app)
    window.close_unasked()
    wait(app, lambda: bool(window.has_stopped))
    return found


def _timed_steps(found: Times, key: str, steps: Iterator[None]) -> Iterator[None]:
    """Take the steps that make a page, and keep the longest and their sum; the event loop runs between them."""
    each: Times = {"step": []}
    ended = object()
    while _time(each, "step", partial(next, steps, ended)) is not ended:
        yield
    blocked, processor = zip(*each["step"], strict=True)
    found[f"make {key}"] = [(max(blocked), max(processor))]
    found[f"make {key}{_IN_ALL}"] = [(sum(blocked), sum(processor))]


def _show(app: Any, window: Any, key: str) -> None:
    window.show_page(key)
    app.processEvents()


def _switch(app: Any, apply_theme: Callable[[Any, str], None], mode: str) -> None:
    apply_theme(app, mode)
    app.processEvents()


def _time(found: Times, action: str, do: Callable[[], Any]) -> Any:
    """Do something, keep its times, and return its result."""
    start, waited, processor = time.perf_counter(), _waited_ms(), time.thread_time()
    result = do()
    blocked = 1000 * (time.perf_counter() - start) - (_waited_ms() - waited)
    found.setdefault(action, []).append((blocked, 1000 * (time.thread_time() - processor)))
    return result


def _waited_ms() -> float:
    """Milliseconds in which this thread was ready to run and had no processor; 0 where the kernel does not tell."""
    return int(_WAITING.read_text().split()[1]) / 1e6 if _WAITING.exists() else 0.0


def _settle(app: Any) -> None:
    """Let timers and the store's thread finish."""
    end = time.monotonic() + 0.4
    wait(app, lambda: time.monotonic() > end)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2])))
