"""The way from the start page to exported results, by keyboard alone and by mouse alone: without a display, and where
the programs for it are installed, on one with a window manager."""

import csv
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication
from wina_app.application import Application
from wina_app.services.engine_thread import EngineThread

from tests.end_to_end.devices import Devices, SimulatedDevices, XDevices
from tests.end_to_end.first_use import ByKeyboard, ByMouse, FirstUse
from tests.end_to_end.hands import carry_out
from tests.wina_app.conftest import close
from tests.wina_app.lent_engine import LentEngine, lent_engine
from tests.wina_app.stall_watchdog import StallWatchdog
from wina_core.store import Store

PROGRAMS = ("Xvfb", "openbox", "xdotool", "wmctrl")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LentEngine]:
    with lent_engine(tmp_path_factory.mktemp("engine")) as lent:
        yield lent


@pytest.fixture
def devices(qapp: QApplication) -> Devices:
    return XDevices() if qapp.platformName() == "xcb" else SimulatedDevices()


@pytest.fixture
def application(
    qtbot, qapp, engine: LentEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Application]:
    """The window as at its first start, with the watchdog beside it."""
    monkeypatch.setenv("WINA_DATABASE", f"sqlite:///{tmp_path / 'results.sqlite'}")
    monkeypatch.chdir(tmp_path)  # where files are proposed
    opened = Application(qapp, engine=EngineThread(engine.lend))
    opened.window.resize(1280, 720)
    watchdog = StallWatchdog(opened)
    opened.start()
    watchdog.start()
    qtbot.waitUntil(opened.window.isActiveWindow, timeout=20_000)
    yield opened
    watchdog.stop()
    close(qtbot, opened)
    assert not watchdog.stalls, "\n\n".join(watchdog.stalls)


WAYS = [ByKeyboard, ByMouse] if "WINA_LONG_TESTS" in os.environ else [ByKeyboard]
"""By mouse, the window is also used from end to end in test_first_light.py."""


@pytest.mark.parametrize("way", WAYS)
def test_the_first_use(way: type[FirstUse], application: Application, devices: Devices, qtbot, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        carry_out(qtbot, way(application, tmp_path, patch, devices).script(), devices)
    with Store(f"sqlite:///{tmp_path / 'results.sqlite'}") as store:
        rows = store.metric_rows()
    assert {row.method for row in rows} == {"dense", "wina"}
    with (tmp_path / "results.csv").open(encoding="utf-8") as file:
        assert len(list(csv.reader(file))) == len(rows) + 1
    assert not QImage(str(tmp_path / "frontier.png")).isNull()


@pytest.mark.skipif("WINA_TEST_DISPLAY" in os.environ, reason="this is the run on a display")
def test_the_same_on_a_display_with_a_window_manager(tmp_path: Path) -> None:
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing or not sys.platform.startswith("linux"):
        pytest.skip(f"needs {', '.join(missing or PROGRAMS)} on Linux")
    here = Path(__file__).parent
    with display(tmp_path / "display.log") as name:
        environment = os.environ | {"DISPLAY": name, "WINA_TEST_DISPLAY": name, "QT_QPA_PLATFORM": "xcb"}
        tests = [f"{here / 'test_first_use.py'}::test_the_first_use", here / "on_display.py"]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "--basetemp",
            tmp_path / "x",
        ]
        done = subprocess.run([*command, *tests], cwd=here.parents[1], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def display(log: Path) -> Iterator[str]:
    """The name of an X display of its own, with a window manager on it."""
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        reading, writing = os.pipe()
        server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1600x1000x24", "-nolisten", "tcp"],
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
    for _ in range(200):
        if subprocess.run(question, env=environment, capture_output=True).returncode == 0:
            return
        time.sleep(0.05)
    raise RuntimeError(
        f"{question} is not answered on display {environment['DISPLAY']}: {log.read_text(errors='replace')}"
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    process.wait(timeout=20)
