"""The end-to-end tests use the window's own fixtures: a screenless Qt, folders of their own, nothing left behind."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from wina_app.application import Application
from wina_app.services.settings import Preferences, Settings, appearance_of
from wina_app.services.threads import EngineThread
from wina_app.style.theme import apply_theme

from tests.end_to_end.hands import Devices, SimulatedDevices, XDevices
from tests.wina_app.conftest import close, home, nothing_left_behind, stall_watchdog
from tests.wina_app.lent_engine import LentEngine, lent_engine
from tests.wina_app.stall_watchdog import StallWatchdog

__all__ = ["home", "nothing_left_behind", "stall_watchdog"]


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LentEngine]:
    """One engine process for all tours."""
    with lent_engine(tmp_path_factory.mktemp("engine")) as lent:
        yield lent


@pytest.fixture
def devices(qapp: QApplication) -> Devices:
    """Those of the X server on a display, simulated ones without."""
    return XDevices() if qapp.platformName() == "xcb" else SimulatedDevices()


@pytest.fixture
def open_window(
    qtbot, qapp: QApplication, engine: LentEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Application]]:
    """Opens the window as at its first start but for some preferences, with the watchdog beside it."""
    monkeypatch.setenv("WINA_DATABASE", f"sqlite:///{tmp_path / 'results.sqlite'}")
    monkeypatch.chdir(tmp_path)  # where files are proposed
    opened: list[tuple[Application, StallWatchdog]] = []

    def open_(**preferences: object) -> Application:
        settings = Settings()
        settings.update(**preferences)
        application = Application(qapp, settings=settings, engine=EngineThread(engine.lend))
        watchdog = StallWatchdog(application)
        opened.append((application, watchdog))
        application.window.resize(1280, 720)
        application.start()
        application.window.resize(1280, 720)  # without a display the screen, in which it has its place, is smaller
        watchdog.start()
        qtbot.waitUntil(application.window.isActiveWindow)
        return application

    yield open_
    for application, watchdog in opened:
        watchdog.stop()
        close(qtbot, application)
    apply_theme(qapp, *appearance_of(Preferences()))
    stalls = [stall for _, watchdog in opened for stall in watchdog.stalls]
    assert "WINA_PICTURES" in os.environ or not stalls, "\n\n".join(stalls)
