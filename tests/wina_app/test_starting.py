"""What is pressed while the window is still making its pages is done at once."""

from PySide6.QtCore import Qt
from wina_app import application as module
from wina_app.application import Application
from wina_app.pages import PAGES
from wina_app.services.engine_thread import EngineThread

from tests.wina_app.conftest import close
from tests.wina_app.fakes import FakeClient


def test_a_page_whose_key_is_pressed_before_its_turn_is_made_and_shown(qtbot, qapp, monkeypatch):
    application = Application(qapp, engine=EngineThread(FakeClient))
    window, workbench, made = application.window, application.workbench, []
    make, begin = module.importlib.import_module, workbench.start

    def note(name):
        made.append(name.rpartition(".")[2])
        return make(name)

    def begin_and_press():
        """The window is painted, and has its first page only."""
        begin()
        qtbot.keyClick(window, Qt.Key.Key_7, Qt.KeyboardModifier.ControlModifier)
        assert window.current_page.key == "results"

    monkeypatch.setattr(module.importlib, "import_module", note)
    monkeypatch.setattr(workbench, "start", begin_and_press)
    application.start(page="model")
    assert made[:2] == ["model", "results"]
    assert sorted(made) == sorted(PAGES)
    assert tuple(window.pages) == PAGES
    window.show_page("no such page")
    assert window.current_page.key == "results"
    close(qtbot, application)
