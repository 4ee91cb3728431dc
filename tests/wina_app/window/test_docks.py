"""Jobs and Log collapse to a line each, and the next start remembers it."""

import pytest
from PySide6.QtCore import Qt
from wina_app.services.settings import Settings

from tests.wina_app.stored_runs import SOURCE
from tests.wina_app.tour import settle
from wina_core.jobs import InspectJob


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


def test_the_choice_of_the_user_outlives_the_height_and_the_window(window, qtbot):
    qtbot.keyClick(window, Qt.Key.Key_J, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    assert _lines(window) == {False}
    window.resizeDocks([window.docks["jobs"]], [170], Qt.Orientation.Vertical)
    settle()
    height = window.docks["jobs"].height()
    assert height > 150
    window.dock_area.toggle()
    assert _lines(window) == {True}
    window.dock_area.toggle()
    settle()
    assert window.docks["jobs"].height() == height
    settings = Settings()
    settings.update(**window.dock_area.state())
    window.reset_layout()
    assert _lines(window) == {True}
    window.dock_area.restore(Settings())
    assert _lines(window) == {False}
    assert window.docks["jobs"].height() == height


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


def test_the_key_of_jobs_expands_the_line_and_hides_the_dock(application, window, qtbot):
    control = Qt.KeyboardModifier.ControlModifier
    assert _lines(window) == {True}
    qtbot.keyClick(window, Qt.Key.Key_J, control)
    assert window.docks["jobs"].isVisible()
    assert _lines(window) == {False}
    qtbot.keyClick(window, Qt.Key.Key_J, control)
    assert not window.docks["jobs"].isVisible()
    window.docks["help"].show()
    window.reset_layout()
    assert window.docks["jobs"].isVisible()
    assert not window.docks["help"].isVisible()
    assert _lines(window) == {True}
    application.show_log(application.workbench.submit(InspectJob(model=SOURCE), "Load demo"))
    assert _lines(window) == {False}, "what leads to a dock shows all of it"
    assert window.log.isAncestorOf(window.focusWidget())
