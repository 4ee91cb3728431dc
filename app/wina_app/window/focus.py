"""The keyboard focus: the Tab order, the outline around plots, and a hint for shortcuts of disabled commands."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QColor, QKeyEvent, QKeySequence, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractScrollArea,
    QApplication,
    QLayout,
    QPlainTextEdit,
    QScrollArea,
    QSplitter,
    QTextEdit,
    QWidget,
)
from shiboken6 import isValid

from wina_app.style.theme import GRID, tokens

if TYPE_CHECKING:
    from wina_app.window.main_window import MainWindow

# The style sheet outlines these, except scroll areas, which do not take the focus.
_STYLED = (QAbstractItemView, QPlainTextEdit, QScrollArea, QTextEdit)


# Qt orders the focus by creation: controls that were rebuilt would come last, and docks before the pages.


def controls(widgets: Iterable[QWidget]) -> list[QWidget]:
    """Return the controls that Tab reaches, in the order of their layouts; controls outside of layouts come last."""
    return [widget for root in widgets for widget in _walk(root) if _takes_tab(widget)]


def next_control(widgets: Iterable[QWidget], now: QWidget | None, *, forward: bool) -> QWidget | None:
    """Return the control after or before the present one, in a circle; None if there is none.

    A present control that cannot be reached any more, because it was disabled for example, keeps its place.
    """
    every = [widget for root in widgets for widget in _walk(root) if widget is now or _takes_tab(widget)]
    if now not in every:
        return next(iter(every if forward else every[::-1]), None)
    at = every.index(now)
    control = every[(at + (1 if forward else -1)) % len(every)]
    return control if control is not now or _takes_tab(now) else None


def reveal(widget: QWidget) -> None:
    """Scroll all areas around a widget to it; Qt does so only within the area that Tab leaves."""
    parent = widget.parentWidget()
    while parent is not None:
        if isinstance(parent, QScrollArea):
            parent.ensureWidgetVisible(widget, GRID, GRID)
        parent = parent.parentWidget()


def _walk(widget: QWidget) -> Iterator[QWidget]:
    yield widget
    if widget.isHidden():
        return
    layout = widget.layout()
    if isinstance(widget, QSplitter):
        # A splitter has no layout.
        inside = [widget.widget(index) for index in range(widget.count())]
    else:
        inside = list(_laid_out(layout)) if layout is not None else []
    loose = [child for child in widget.children() if isinstance(child, QWidget) and not child.isWindow()]
    for child in dict.fromkeys([*inside, *loose]):
        if child is not None:
            yield from _walk(child)


def _laid_out(layout: QLayout) -> Iterator[QWidget]:
    for index in range(layout.count()):
        item = layout.itemAt(index)
        if item is None:
            continue
        if (widget := item.widget()) is not None:
            yield widget
        elif (inner := item.layout()) is not None:
            yield from _laid_out(inner)


def _takes_tab(widget: QWidget) -> bool:
    by_tab = bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
    return by_tab and widget.isVisible() and widget.isEnabled() and widget.focusProxy() is None


class FocusFrame(QObject):
    """Outline that follows the focus."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._frame: _Frame | None = None
        cast(QApplication, QApplication.instance()).focusChanged.connect(self._follow)

    def _follow(self, _before: QWidget | None, now: QWidget | None) -> None:
        # Qt deletes the frame together with its area.
        if self._frame is not None and isValid(self._frame):
            self._frame.hide()
            self._frame.deleteLater()
        self._frame = None
        if isinstance(now, QAbstractScrollArea) and not isinstance(now, _STYLED):
            self._frame = _Frame(now)


class _Frame(QWidget):
    """An outline over an area, transparent for the mouse."""

    def __init__(self, area: QAbstractScrollArea) -> None:
        super().__init__(area)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        area.installEventFilter(self)
        self.resize(area.size())
        self.show()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the size of the area."""
        if event.type() == QEvent.Type.Resize and isinstance(watched, QWidget):
            self.resize(watched.size())
        return False

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002 - Qt's signature
        """Draw the outline of the style sheet."""
        with QPainter(self) as painter:
            painter.setPen(QPen(QColor(tokens().accent), 2))
            painter.drawRect(self.rect().adjusted(1, 1, -1, -1))


class DisabledShortcutHint(QObject):
    """Event filter for keys that no widget of the window has accepted."""

    def __init__(self, window: "MainWindow") -> None:
        super().__init__(window)
        self._window = window
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Show the tooltip of a disabled command, which has the reason, on its page."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            page, pressed = self._window.current_page, QKeySequence(event.keyCombination())
            docks = (dock.toggleViewAction() for dock in self._window.docks.values())
            for command in (*page.commands, *docks):
                if command.shortcut() == pressed and not command.isEnabled():
                    page.show_notice(command.toolTip())
                    return True
        return super().eventFilter(watched, event)
