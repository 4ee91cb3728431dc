"""A database of a million metrics: `python -m tests.trust.million`.

A window in a process of its own opens on the Results page, filters and exports; the command line exports CSV, JSON and
Parquet. The values are all different, as measured ones are. It takes about a minute, prints one JSON object and one
line of verdict, and ends with status 1 where a bar is missed. Memory is in megabytes of a million bytes: the most that
was resident at any time (VmHWM).
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.trust import PATHS
from tests.trust.attack import verdict

RUNS, TASKS = 25_000, 20
BARS = {"opened_s": 3.0, "filtered_s": 0.3, "window_mb": 600.0, "export_mb": 300.0}
SUFFIXES = (".parquet", ".csv", ".json")
FILTERS = ("method:teal", "acc_norm limit", "gated>40 value>0.5", "task:/first 1/ -rsparse", "0.123", "")
_PATIENCE_S = 180.0


def make_database(file: Path, runs: int = RUNS, tasks: int = TASKS) -> int:
    """Fill a database and return the number of its metrics: two units a run, `tasks` tasks, two metrics a task."""
    import sqlite3
    from contextlib import closing

    from tests.benchmarks.large_store import fill, various_runs
    from wina_core.store import Store

    names = tuple(
        (f"{('first', 'second')[task % 2]} {task}", metric) for task in range(tasks) for metric in ("acc", "acc_norm")
    )
    with Store(file) as store:
        fill(store, various_runs(runs), names)
    chance, count = random.Random(7), runs * len(names)
    with closing(sqlite3.connect(file)) as connection, connection:
        numbers = ((chance.random(), 0.01 * chance.random(), number + 1) for number in range(count))
        connection.executemany("UPDATE metrics SET value = ?, stderr = ? WHERE id = ?", numbers)
        units = [unit for (unit,) in connection.execute("SELECT id FROM units")]
        measured = ((*(chance.random() for _ in range(3)), unit) for unit in units)
        connection.executemany(
            "UPDATE units SET gated_sparsity = ?, net_sparsity = ?, seconds = ? WHERE id = ?", measured
        )
    return count


def main() -> int:
    """Measure, print and judge."""
    with TemporaryDirectory() as folder:
        database = Path(folder) / "results.sqlite"
        count = make_database(database)
        window = _child("window", folder, database, RUNS, count)
        over_idle = {}
        for suffix in SUFFIXES:
            idle, full = (_child("export", folder, file, suffix) for file in (Path(folder) / "empty.sqlite", database))
            over_idle[suffix] = round(full["mb"] - idle["mb"], 1)
    measured = {
        "opened_s": window["opened_s"],
        "filtered_s": max(window["filtered_s"].values()),
        "window_mb": window["mb"],
        "export_mb": max(over_idle.values()),
    }
    report = {"metrics": count, "window": window, "exports": over_idle, "bars": BARS, "measured": measured}
    return verdict("million", report, [name for name, bar in BARS.items() if measured[name] > bar])


def _child(what: str, folder: str, *arguments: object) -> dict[str, Any]:
    """Run this module in a process of its own and return what it prints."""
    own = {"QT_QPA_PLATFORM": "offscreen", "WINA_HOME": folder, "PYTHONPATH": os.pathsep.join(PATHS)}
    command = [sys.executable, "-m", "tests.trust.million", what, folder, *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | own, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


# ---- in a process of its own -----------------------------------------------------------------------------------


def export(folder: str, database: str, suffix: str) -> dict[str, float]:
    """Export all metrics by the command line."""
    from wina_core.cli import main as command_line

    sys.argv = ["wina", "export", str(Path(folder) / f"all{suffix}"), "--database", database]
    try:
        command_line()
    except SystemExit as end:
        if end.code:
            raise
    return {"mb": _peak_megabytes()}


def window(folder: str, database: str, runs: str, rows: str) -> dict[str, Any]:
    """Open on the runs, list the metrics, filter and export; times are from the user's act to the painted table."""
    from PySide6.QtWidgets import QApplication
    from wina_app.services.process import skip_feature_scan

    skip_feature_scan()  # as the program does, and the next
    from wina_app.application import Application
    from wina_app.services.process import configure_malloc
    from wina_app.services.settings import Settings

    from tests.benchmarks.event_loop import wait

    configure_malloc()
    app = QApplication([])
    app.setQuitOnLastWindowClosed(False)
    began = time.perf_counter()
    application = Application(app, database, Settings(Path(folder) / "window.json"))
    main_window = application.window
    main_window.resize(1920, 1080)
    application.start(page="results")

    def seconds_until(done: Callable[[], bool], since: float) -> float:
        """Wait until `done()` and the table is painted; return the seconds, and let the plots follow untimed."""
        wait(app, done, longest_s=_PATIENCE_S, pause_s=0.002)
        page.table.viewport().repaint()
        seconds, end = time.perf_counter() - since, time.monotonic() + 0.3
        idle = lambda: time.monotonic() > end and not application.workbench.store.unanswered  # noqa: E731
        wait(app, idle, longest_s=_PATIENCE_S)
        return round(seconds, 3)

    wait(app, lambda: "results" in main_window.pages, longest_s=_PATIENCE_S)
    page = main_window.pages["results"]
    model = page.controller.table
    opened = seconds_until(lambda: page.table.model().rowCount() == int(runs), began)
    filtered = {}
    for form in ("runs", "metrics"):
        if form != "runs":
            began = time.perf_counter()
            page.list.form.buttons[form].click()
            filtered[form] = seconds_until(lambda: model.rowCount() == int(rows), began)
        for text in FILTERS:
            counts, began = model.passing_count, time.perf_counter()
            page.filter.setText(text)
            changed = lambda counts=counts: model.passing_count != counts  # noqa: E731
            filtered[f"{form}: {text or 'none'}"] = seconds_until(changed, began)
    target = Path(folder) / "window.parquet"
    page.controller.export(target)
    wait(app, lambda: target.exists() and not application.workbench.store.unanswered, longest_s=_PATIENCE_S)
    main_window.close()
    wait(app, lambda: bool(main_window.has_stopped))
    return {"opened_s": opened, "filtered_s": filtered, "mb": _peak_megabytes()}


def _peak_megabytes() -> float:
    """Return the most memory that was resident in this process; Linux only."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    return round(int(kilobytes) * 1024 / 1e6, 1)


if __name__ == "__main__":
    children: dict[str, Callable[..., Any]] = {"window": window, "export": export}
    if len(sys.argv) > 1:
        print(json.dumps(children[sys.argv[1]](*sys.argv[2:])))
    else:
        sys.exit(main())
