"""Where a window goes that was somewhere before, perhaps on a screen that is gone."""

from PySide6.QtCore import QRect


def clamped(window: QRect, screen: QRect) -> QRect:
    """The window's rectangle moved and shrunk until it lies on the screen."""
    size = window.size().boundedTo(screen.size())
    left = min(max(window.left(), screen.left()), screen.right() + 1 - size.width())
    top = min(max(window.top(), screen.top()), screen.bottom() + 1 - size.height())
    return QRect(left, top, size.width(), size.height())
