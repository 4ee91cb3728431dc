"""The way from the start page to exported results, by keyboard alone, by mouse alone, and with large text on dark: on a
virtual screen with a window manager where the programs for it are installed, otherwise without a display.

`WINA_PICTURES=FOLDER` has a picture of the screen taken at every stage, each of which blocks the main thread."""

import csv
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from PySide6.QtGui import QImage
from wina_app.application import Application

from tests.end_to_end.devices import Devices
from tests.end_to_end.first_use import ByKeyboard, ByMouse, FirstUse
from tests.end_to_end.hands import carry_out
from tests.end_to_end.screen import ELSEWHERE, LONG, MISSING, ON_DISPLAY, ON_SCREEN, PROGRAMS, display
from wina_core.store import Store


class Way(NamedTuple):
    """Hands and eyes of a person."""

    hands: type[FirstUse]
    theme: str = "light"
    text_size: int = 100

    def __str__(self) -> str:
        return f"{self.hands.__name__}-{self.theme}-{self.text_size}"


WAYS = [Way(ByKeyboard, "dark", 150)]  # by mouse, in light colours, is test_guide.py
if LONG:
    WAYS += [Way(ByKeyboard), Way(ByMouse), Way(ByMouse, "dark", 150)]


@pytest.fixture(params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


@pytest.fixture
def application(way: Way, open_window: Callable[..., Application]) -> Application:
    return open_window(theme=way.theme, text_size=way.text_size)


@pytest.mark.skipif(ELSEWHERE, reason="done on a virtual screen, below")
def test_the_first_use(way: Way, application: Application, devices: Devices, qtbot, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        carry_out(qtbot, way.hands(application, tmp_path, patch, devices).script(), devices)
    with Store(f"sqlite:///{tmp_path / 'results.sqlite'}") as store:
        assert {row.method for row in store.metric_rows()} == {"dense", "wina"}
    with (tmp_path / "results.csv").open(encoding="utf-8") as file:
        assert {row["method"] for row in csv.DictReader(file)} == {"dense", "wina"}
    assert not QImage(str(tmp_path / "frontier.png")).isNull()


@pytest.mark.timeout(3600)
@pytest.mark.skipif(ON_DISPLAY, reason="this is the run on a display")
@pytest.mark.parametrize("scale", [1, 1.5] if LONG else [1])
def test_the_same_on_a_display_with_a_window_manager(tmp_path: Path, scale: float) -> None:
    if not ON_SCREEN:
        pytest.skip(f"needs {', '.join(MISSING or PROGRAMS)} on Linux")
    here = Path(__file__).parent
    tests = [f"{here / 'test_first_use.py'}::test_the_first_use", here / "on_display.py", here / "test_guide.py"]
    options = ["-q", "--durations=9", "-p", "no:cacheprovider", "-p", "no:xdist", "--basetemp", tmp_path / "x"]
    options += ["-s"] * LONG
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
