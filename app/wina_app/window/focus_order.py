"""The Tab order of controls, which follows their layouts.

Qt's own order is that of creation: rebuilt controls would come last, and docks before the pages.
"""

from collections.abc import Iterable, Iterator

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLayout, QScrollArea, QSplitter, QWidget

from wina_app.style.theme import GRID


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
