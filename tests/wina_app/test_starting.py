"""The first seconds of a window: packages, and keys pressed while it is still making its pages."""

import pytest
from PySide6.QtCore import Qt
from wina_app.application import Application
from wina_app.pages import PAGES
from wina_app.services.settings import Settings
from wina_app.services.threads import EngineThread

from tests.wina_app.conftest import close
from tests.wina_app.fakes import FakeClient
from wina_core.model_info.resolve import demo_folder


def test_a_page_whose_key_is_pressed_before_its_turn_is_made_and_shown(qtbot, qapp, monkeypatch):
    application = Application(qapp, engine=EngineThread(FakeClient))
    window, workbench, begin = application.window, application.workbench, application.workbench.start
    steps = application.page_steps["results"]
    next(steps)
    next(steps)
    assert "results" not in window.pages
    window.show_page("results")
    assert window.current_page is window.pages["results"], "at once, between two steps"
    assert next(steps, None) is None

    def begin_and_press():
        """Press the key when the window is painted and has its first page only."""
        begin()
        assert set(window.pages) == {"model", "results"}
        qtbot.keyClick(window, Qt.Key.Key_8, Qt.KeyboardModifier.ControlModifier)
        assert window.current_page.key == "studies"

    monkeypatch.setattr(workbench, "start", begin_and_press)
    application.start(page="model")
    assert set(window.pages) == set(PAGES)
    window.show_page("no such page")
    assert window.current_page.key == "studies"
    close(qtbot, application)


@pytest.mark.parametrize("named", [True, False])
def test_a_model_that_is_named_opens_in_place_of_the_one_of_the_last_session(qtbot, qapp, named, monkeypatch):
    monkeypatch.setattr("wina_app.application.PAGES", ("model",))
    settings = Settings()
    settings.session = {"model": {"location": "demo", "dtype": "bfloat16"}}
    application = Application(qapp, settings=settings, engine=EngineThread(FakeClient))
    application.start(page="model", files=[demo_folder() / "model"] if named else [])
    jobs = application.workbench.jobs
    qtbot.waitUntil(lambda: bool(list(jobs)))
    assert [entry.job.model.dtype == "bfloat16" for entry in jobs] == [not named]
    close(qtbot, application)
