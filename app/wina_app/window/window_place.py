"""The place of a window, whose title bar must be on a screen: screens come, go and are scaled."""

from collections.abc import Sequence

from PySide6.QtCore import QRect


def placed(frame: QRect, screens: Sequence[QRect]) -> QRect:
    """Move and shrink a window with its frame until it lies on one screen: that which shows most of it, else the first.

    `screens` has the areas that the desktop leaves to windows. A window whose contents need more than the screen starts
    at its upper left corner, with its title bar.
    """
    return clamped(frame, max(screens, key=lambda screen: _area(screen.intersected(frame)))) if screens else frame


def clamped(window: QRect, screen: QRect) -> QRect:
    """Move and shrink the rectangle of a window until it lies on the screen."""
    size = window.size().boundedTo(screen.size())
    left = min(max(window.left(), screen.left()), screen.right() + 1 - size.width())
    top = min(max(window.top(), screen.top()), screen.bottom() + 1 - size.height())
    return QRect(left, top, size.width(), size.height())


def _area(rect: QRect) -> int:
    return max(0, rect.width()) * max(0, rect.height())
