"""The place of a window, whose title bar and status line must be on a screen: screens come, go and are scaled."""

from collections.abc import Sequence
from typing import cast

from PySide6.QtCore import QMargins, QObject, QRect, QSize, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

_FRAME_MS = 500
"""Time for the desktop to give a window its title bar."""
_DEFAULT_SIZE = (1280, 800)


class WindowPlace(QObject):
    """Keeper of a window on the screens that there are."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._size = QSize()
        """Size that the window was given by the program."""
        cast(QGuiApplication, QGuiApplication.instance()).screenRemoved.connect(self.fit)

    def restore(self, geometry: bytes) -> None:
        """Take the place of `QWidget.saveGeometry`, or the default size if it is empty."""
        self._window.resize(*_DEFAULT_SIZE)
        if geometry:
            self._window.restoreGeometry(geometry)
        self._size = self._window.size()
        self.fit()

    def fit_with_frame(self) -> None:
        """Fit the window that was shown into its screen once the desktop has given it a title bar."""
        QTimer.singleShot(_FRAME_MS, self, self.fit)

    def fit(self) -> None:
        """Move the window with its frame onto a screen, and shrink it unless the user has resized it."""
        window = self._window
        if window.isMaximized() or window.isFullScreen():
            return
        margins = self._frame_margins()
        frame = window.geometry().marginsAdded(margins)
        target = placed(frame, self._screens())
        if target != frame:
            if window.size() == self._size:
                window.resize(target.marginsRemoved(margins).size())
            window.move(target.topLeft())
            self._size = window.size()

    def _frame_margins(self) -> QMargins:
        handle = self._window.windowHandle()
        return handle.frameMargins() if handle is not None else QMargins()

    def _screens(self) -> list[QRect]:
        return [screen.availableGeometry() for screen in QGuiApplication.screens()]


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
