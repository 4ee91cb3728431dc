"""Everything has a name for screen readers, is reached by Tab, and shows when it has the keyboard."""

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QObject, Qt, SignalInstance
from PySide6.QtGui import QImage
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QGraphicsView,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QProgressBar,
    QScrollBar,
    QTabBar,
    QTextEdit,
    QWidget,
)
from wina_app.pages import PAGES
from wina_app.services import guide
from wina_app.widgets.help_button import HelpButton

from tests.wina_app.stored_runs import SOURCE, summary
from tests.wina_app.tour import every_dialog, every_page, every_side, furnish, settle

CONTROLS = (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QGraphicsView,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QProgressBar,
    QTabBar,
    QTextEdit,
)
MARKS_A_PAGE = 5


def _nameless(root: QWidget) -> Iterator[QWidget]:
    for control in root.findChildren(QWidget):
        if isinstance(control, CONTROLS) and not isinstance(control, QScrollBar) and not _is_part_of_another(control):
            title = control.title() if isinstance(control, QMenu) else ""
            text = control.text() if isinstance(control, QAbstractButton) else ""
            if not (control.accessibleName() or text or title):
                yield control


def _is_part_of_another(control: QWidget) -> bool:
    """A control that Qt made inside of another one, which has the name."""
    parent = control.parent()
    inside = isinstance(parent, QAbstractSpinBox | QAbstractItemView | QComboBox | QLineEdit | QTabBar)
    return inside or parent.metaObject().className() in ("QComboBoxPrivateContainer", "QDockWidget", "QMenuBar")


def _path(control: QWidget) -> str:
    parts, one = [], control
    while one is not None and len(parts) < 4:
        parts.append(type(one).__name__)
        one = one.parent()
    return f"{' < '.join(parts)} {control.objectName()}"


@pytest.mark.all_pages
@pytest.mark.parametrize("pages", [{"model"}, pytest.param(set(PAGES), marks=pytest.mark.nightly)], ids=["one", "all"])
def test_every_control_has_a_name_for_screen_readers_is_reached_by_tab_and_shows_that_it_has_the_keyboard(
    application, qapp, pages
):
    window, faults = application.window, []
    assert {*every_page(window)} == {*PAGES}
    nameless = set(map(_path, _nameless(window)))
    qapp.setCursorFlashTime(0)
    window.activateWindow()
    furnish(application)
    for side in every_side(window):
        for page in every_page(window):
            if page in pages and (side == "pages alone" or page == "sparsity"):
                faults += [f"{page}, {side}: {fault}" for fault in _walk(window, window.focusNextPrevChild)]
    nameless |= set(map(_path, _nameless(window)))
    for dialog in every_dialog(application):
        nameless |= set(map(_path, _nameless(dialog)))
        dialog.activateWindow()
        faults += [f"{type(dialog).__name__}: {fault}" for fault in _walk(dialog, dialog.focusNextPrevChild)]
    assert not nameless
    assert not faults, "\n".join(faults)
    assert not _clashes(window)


def _walk(window: QWidget, step: Callable[[bool], bool]) -> Iterator[str]:
    """Go once round by Tab; tells what was not reached, not scrolled into sight, or looked the same."""
    settle()
    waiting = {widget for widget in window.findChildren(QWidget) if _takes_tab(widget)}
    step(True)
    passed: set[QWidget] = set()
    while (here := window.focusWidget()) not in passed and here is not None:
        settle()
        passed.add(here)
        seen = here.viewport() if isinstance(here, QAbstractScrollArea) else here  # which covers all of the area
        if seen.visibleRegion().isEmpty():
            yield f"{_path(here)} {here.accessibleName()!r} has the keyboard out of sight"
        focused = _picture(here)
        step(True)
        if window.focusWidget() is not here and _picture(here) == focused:
            yield f"{_path(here)} {here.accessibleName()!r} looks the same with the keyboard"
    for missed in waiting - passed:
        if _takes_tab(missed):  # of radio buttons only the chosen one still does
            yield f"{_path(missed)} {missed.accessibleName()!r} is not reached"


def _takes_tab(widget: QWidget) -> bool:
    by_tab = bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
    return by_tab and widget.isVisible() and widget.isEnabled() and widget.focusProxy() is None


def _picture(widget: QWidget) -> QImage:
    """With what its holder draws around it."""
    return widget.grab().toImage()


def _clashes(window: QWidget) -> set[str]:
    """Qt would call such an attribute for its own: a choice named `metric` ended the program when the fonts changed."""
    return {
        f"{type(widget).__name__}.{name}"
        for widget in window.findChildren(QObject)
        for name, value in vars(widget).items()
        if not isinstance(value, SignalInstance) and callable(getattr(_qt_class(type(widget)), name, None))
    }


def _qt_class(kind: type) -> type:
    return next(base for base in kind.__mro__ if base.__module__.startswith("PySide6"))


@pytest.mark.all_pages
def test_every_page_explains_a_few_of_its_terms_and_leads_to_more_of_them(application, qtbot):
    window = application.window
    for key, page in window.pages.items():
        marks = page.findChildren(HelpButton)
        assert 1 <= len(marks) <= MARKS_A_PAGE, (key, len(marks))
        names = [mark.accessibleName() for mark in marks]
        assert len(set(names)) == len(names), key
    window.show_page("evaluate")
    application.workbench.workspace.set_model(SOURCE, summary())
    settle()
    mark = next(mark for mark in window.pages["evaluate"].findChildren(HelpButton) if "prefix" in mark.accessibleName())
    term = guide.terms()["dense prefix"]
    assert mark.toolTip() == term.text
    while window.focusWidget() is not mark:
        assert window.focusNextPrevChild(True)
    qtbot.keyClick(mark, Qt.Key.Key_Space)
    assert window.docks["help"].isVisible()
    assert window.help.topic == term.topic == "glossary.md#dense-prefix"
