"""The way from the start page to exported results, by keyboard alone: without a display, and nightly on a virtual
screen with a window manager, where the programs for it are installed.

`WINA_PICTURES=FOLDER` has a picture of the screen taken at every stage, each of which blocks the main thread."""

import csv
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from wina_app.application import Application

from tests.end_to_end.first_use import FirstUse
from tests.end_to_end.hands import Devices, carry_out
from wina_core.store import Store
from wina_core.studies.expand import save_study_file

PROGRAMS = ("Xvfb", "openbox", "xdotool", "wmctrl")
MISSING = [program for program in PROGRAMS if shutil.which(program) is None]
ON_SCREEN = not MISSING and sys.platform.startswith("linux")
"""Whether a virtual screen can be had."""
ON_DISPLAY = "WINA_TEST_DISPLAY" in os.environ
LONG = "WINA_LONG_TESTS" in os.environ
_KEY = ("method", "rotation", "plan", "target_sparsity", "task", "metric")
_NUMBERS = ("value", "stderr", "n", "gated_sparsity", "net_sparsity")


@pytest.mark.parametrize(("theme", "text_size"), [("dark", 150), *([("light", 100)] if LONG else [])])
def test_the_first_use(
    theme: str,
    text_size: int,
    open_window: Callable[..., Application],
    devices: Devices,
    qtbot,
    tmp_path: Path,
) -> None:
    application = open_window(theme=theme, text_size=text_size)
    with pytest.MonkeyPatch.context() as patch:
        carry_out(qtbot, FirstUse(application, tmp_path, patch, devices).script(), devices)
    in_window = numbers(tmp_path / "results.sqlite")
    assert {key[0] for key in in_window} == {"dense", "wina"}
    with (tmp_path / "results.csv").open(encoding="utf-8") as file:
        assert {row["method"] for row in csv.DictReader(file)} == {"dense", "wina"}
    assert not QImage(str(tmp_path / "frontier.png")).isNull()
    if LONG:  # by day test_cli.py goes without the window
        assert computed_by_command_line(tmp_path) == in_window


def computed_by_command_line(folder: Path) -> dict[tuple, tuple]:
    """Return the numbers of the window's study as `wina study run` computes them into a database of its own."""
    with Store(folder / "results.sqlite") as store:
        study = store.study_spec(store.studies()[0].study)
    assert study is not None
    save_study_file(study, folder / "study.json")
    words = ["study", "run", folder / "study.json", "--database", folder / "line.sqlite"]
    # In a process of its own: the watchdog is for the main thread of this one.
    subprocess.run([sys.executable, "-P", "-m", "wina_core.cli", *words], check=True)
    return numbers(folder / "line.sqlite")


def numbers(database: Path) -> dict[tuple, tuple]:
    """Return everything measured, by what it was measured on."""
    with Store(database) as store:
        rows = store.metric_rows()
    by_key = {
        tuple(getattr(row, name) for name in _KEY): tuple(getattr(row, name) for name in _NUMBERS) for row in rows
    }
    assert len(by_key) == len(rows)
    return by_key


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.skipif(ON_DISPLAY, reason="this is the run on a display")
@pytest.mark.parametrize("scale", [1, 1.5])
def test_the_same_on_a_display_with_a_window_manager(tmp_path: Path, scale: float) -> None:
    if not ON_SCREEN:
        pytest.skip(f"needs {', '.join(MISSING or PROGRAMS)} on Linux")
    here = Path(__file__).parent
    tests = [f"{here / 'test_first_use.py'}::test_the_first_use", here / "on_display.py"]
    options = ["-qs", "--durations=9", "-p", "no:cacheprovider", "-p", "no:xdist", "--basetemp", tmp_path / "x"]
    with display(tmp_path / "display.log", scale) as name:
        environment = os.environ | {"DISPLAY": name, "WINA_TEST_DISPLAY": name, "QT_QPA_PLATFORM": "xcb"}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=here.parents[1],
            env=environment | {"QT_SCALE_FACTOR": str(scale)},
            capture_output=True,
            text=True,
        )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def display(log: Path, scale: float = 1) -> Iterator[str]:
    """The name of an X display of its own, with a window manager on it; its pixels are as many more as a window's."""
    size = f"{round(1600 * scale)}x{round(1000 * scale)}x24"
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        reading, writing = os.pipe()
        server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(writing), "-screen", "0", size, "-nolisten", "tcp", "-noreset"],
            pass_fds=[writing], stdout=output, stderr=output,
        )  # fmt: skip
        stack.callback(_end, server)
        os.close(writing)
        with os.fdopen(reading) as told:
            name = f":{told.readline().strip()}"
        environment = os.environ | {"DISPLAY": name}
        _wait_for(["xdotool", "getdisplaygeometry"], environment, log)
        stack.callback(_end, subprocess.Popen(["openbox"], env=environment, stdout=output, stderr=output))
        _wait_for(["wmctrl", "-m"], environment, log)
        yield name


def _wait_for(question: list[str], environment: dict[str, str], log: Path) -> None:
    for _ in range(2400):
        if subprocess.run(question, env=environment, capture_output=True).returncode == 0:
            return
        time.sleep(0.05)
    raise RuntimeError(
        f"{question} is not answered on display {environment['DISPLAY']}: {log.read_text(errors='replace')}"
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    process.wait(timeout=120)
