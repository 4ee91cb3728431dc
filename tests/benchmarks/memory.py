"""Resident memory of the window's process on a database of 10,000 runs with 100,000 metrics; the bar is 400 MB.

A window in a process of its own lists them, shows every column, scrolls, sorts, filters, groups, draws every plot of
the Results page and every other page; after each of these its memory is read. The engine is another process and is not
counted. Without a screen (offscreen) the window's pixels are in its own memory, as they are on a desktop.

Expected before it was measured: 150 MB for Python, Qt, pyqtgraph, numpy and SQLAlchemy with the frame, 60 MB for all
pages, and 80 MB for the rows: two of 100,000 tuples, whose numbers are their own and whose texts are shared. Seen:
250 MB with 20 runs in the database, and 345 MB at most with 10,000.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from event_loop import wait

BAR_MB = 400
"""Of a million bytes."""
RUNS = 10_000
RESULTS = Path(__file__).parent / "results"
_FILTERS = ("method:wina target>=40", "task:/first [0-4]$/ -method:teal", "")
_GROUPS = ("method", "task", "hash", "")


def run(out: Path | None, toy: bool) -> None:
    """Measure, print and write."""
    from large_store import METRICS, fill, various_runs  # not at the top: the window's process is this file too

    from wina_core.compute.session.environment import environment
    from wina_core.store import Store

    metrics = tuple(each for each in METRICS if each[1] == "acc")
    runs = various_runs(20 if toy else RUNS)
    with TemporaryDirectory() as folder:
        database = Path(folder) / "results.sqlite"
        with Store(database) as store:
            fill(store, runs, metrics)
        settings = {"QT_QPA_PLATFORM": "offscreen", "WINA_HOME": folder, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, __file__, str(database), str(len(runs) * len(metrics)), "0.02" if toy else "0.3"],
            env=os.environ | settings, check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
    steps: dict[str, float] = json.loads(done.stdout)
    here, most = environment(), max(steps.values())
    content = {
        "benchmark": "memory",
        "hardware": here.hardware,
        "versions": here.versions,
        "runs": len(runs),
        "metrics": len(runs) * len(metrics),
        "resident_megabytes": steps,
        "bars": [{"bar": "resident megabytes", "wanted": BAR_MB, "measured": most, "met": most <= BAR_MB}],
    }
    file = out or RESULTS / "memory-cpu.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    lines = [f"{name:28}{megabytes:9.1f}" for name, megabytes in steps.items()]
    lines.append(f"{'at most':28}{most:9.1f}{BAR_MB:7} {'met' if most <= BAR_MB else 'MISSED'}")
    print("\n".join(("\nmemory, resident megabytes", *lines, f"-> {file}")), flush=True)


def measure(database: str, rows: int, rest: float) -> dict[str, float]:
    """Megabytes after each step, in this process; `rest` seconds are left after each for what timers do."""
    from PySide6.QtWidgets import QApplication
    from wina_app.application import Application
    from wina_app.services.settings import Settings

    app = QApplication([])
    app.setQuitOnLastWindowClosed(False)
    found: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        application = Application(app, database, Settings(Path(folder) / "window.json"))
        window = application.window
        window.resize(1920, 1080)
        application.start(page="results")
        found["opened"] = _resident_megabytes()
        for name, done in _steps(application, rows):
            end = time.monotonic() + rest
            wait(app, done)
            wait(app, partial(_is_past, end))
            found[name] = _resident_megabytes()
        window.close()
        wait(app, lambda: bool(window.has_stopped))
    return found


def _steps(application: Any, rows: int) -> Iterator[tuple[str, Callable[[], bool]]]:
    """Steps done, and the signs of their effect."""
    window = application.window
    page = window.pages["results"]
    table, model, columns = page.table, page.controller.table, page.columns
    yield "runs listed", lambda: model.rowCount() > 0
    page.list.form.buttons["metrics"].click()
    yield "listed", lambda: model.rowCount() == rows
    for column, _ in columns.offered:
        columns.show(column.key)
    yield "all columns", lambda: len(columns.visible_keys()) == len(columns.offered)
    for position in range(0, model.rowCount(), max(rows // 50, 1)):
        table.verticalScrollBar().setValue(position)
    yield "scrolled", _nothing
    for number in range(len(model.columns)):
        table.sortByColumn(number, _ascending())
    yield "sorted by each column", _nothing
    for text in _FILTERS:
        page.filter.setText(text)
        yield f"filtered: {text or 'no more'}", _nothing
    for key in _GROUPS:
        page.controller.table.group_by(key)
        yield f"grouped by {key or 'nothing'}", _nothing
    table.selectAll()
    yield "all selected", _nothing
    for number in range(page.plots.tabs.count()):
        page.plots.tabs.setCurrentIndex(number)
        yield f"plot: {page.plots.tabs.tabText(number)}", _nothing
    for key in window.pages:
        window.show_page(key)
        yield f"page: {key}", _nothing


def _is_past(end: float) -> bool:
    return time.monotonic() > end


def _nothing() -> bool:
    return True


def _ascending() -> Any:
    from PySide6.QtCore import Qt

    return Qt.SortOrder.AscendingOrder


def _resident_megabytes() -> float:
    import psutil

    return float(psutil.Process().memory_info().rss) / 1e6


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
