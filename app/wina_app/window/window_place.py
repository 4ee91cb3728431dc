"""The place of a restored window, whose screen may be gone."""

from PySide6.QtCore import QRect


def clamped(window: QRect, screen: QRect) -> QRect:
    """Move and shrink the rectangle of a window until it lies on the screen."""
    size = window.size().boundedTo(screen.size())
    left = min(max(window.left(), screen.left()), screen.right() + 1 - size.width())
    top = min(max(window.top(), screen.top()), screen.bottom() + 1 - size.height())
    return QRect(left, top, size.width(), size.height())
