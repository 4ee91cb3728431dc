"""Jobs and Log collapse to a line each, and the next start remembers it."""

import pytest
from PySide6.QtCore import Qt
from wina_app.services.settings import Settings

from tests.wina_app.tour import settle


@pytest.fixture
def window(application):
    settle()
    return application.window


def _lines(window) -> set[bool]:
    """Return whether Jobs and Log are as high as a line of text with its margins."""
    settle()
    return {window.docks[key].height() < 40 for key in ("jobs", "log")}


def test_a_low_window_leaves_its_height_to_the_page_and_a_floating_dock_is_whole(window):
    assert _lines(window) == {True}
    assert window.stack.height() >= 640
    assert window.docks["jobs"].width() > window.docks["log"].width() > 400
    assert window.log.last.isVisible()
    assert not window.log.text.isVisible()
    window.resize(1280, 1000)
    assert _lines(window) == {False}
    assert window.log.text.isVisible()
    window.resize(1280, 720)
    assert _lines(window) == {True}
    window.docks["log"].setFloating(True)
    settle()
    assert window.log.text.isVisible()
    assert window.docks["log"].height() > 100
    window.docks["log"].setFloating(False)
    assert _lines(window) == {True}
    window.dock_area.restore(Settings())
    assert _lines(window) == {True}, "that of a first start"


@pytest.mark.all_pages
def test_the_inspector_is_hidden_where_it_has_nothing_and_tab_leaves_it_out_behind_the_guide(window, qtbot):
    inspector, control = window.docks["inspector"], Qt.KeyboardModifier.ControlModifier
    qtbot.keyClick(window, Qt.Key.Key_I, control)
    assert not inspector.isVisible()
    assert window.current_page.message.label.text().startswith("This page has nothing to inspect")
    window.show_page("results")
    qtbot.keyClick(window, Qt.Key.Key_I, control)
    assert inspector.isVisible()
    for key, shown in (("studies", False), ("model", False), ("sparsity", True), ("latency", False)):
        window.show_page(key)
        assert inspector.isVisible() == shown, key
    settings = Settings()
    settings.update(**window.dock_area.state())
    window.reset_layout()
    window.show_page("results")
    assert not inspector.isVisible()
    window.show_page("model")
    window.dock_area.restore(Settings())
    assert not inspector.isVisible()
    window.show_page("results")
    assert inspector.isVisible()
    inspector.close()
    window.show_page("model")
    window.show_page("results")
    assert not inspector.isVisible()

    guide = window.docks["help"]
    for dock in (inspector, guide):
        dock.show()
    guide.raise_()
    settle()
    passed = set()
    while (here := window.focusWidget()) not in passed:
        passed.add(here)
        window.focusNextPrevChild(True)
    assert any(guide.isAncestorOf(widget) for widget in passed)
    assert not any(inspector.isAncestorOf(widget) for widget in passed)
