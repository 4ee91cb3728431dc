"""State of the window that the next start restores: its place on the screens, and the views of its pages."""

import logging
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic_core import to_jsonable_python
from PySide6.QtCore import QMargins, QObject, QRect, QSize, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from wina_app.services.settings import Settings
from wina_app.widgets.base_page import Page

_FRAME_MS = 500
"""Time for the desktop to give a window its title bar."""
_DEFAULT_SIZE = (1280, 800)

_log = logging.getLogger(__name__)


class WindowPlace(QObject):
    """Keeper of a window on the present screens."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._size = QSize()
        """Size that the program has given the window."""
        cast(QGuiApplication, QGuiApplication.instance()).screenRemoved.connect(self.fit)

    def restore(self, geometry: bytes) -> None:
        """Take the place of `QWidget.saveGeometry`, or the default size if it is empty."""
        self._window.resize(*_DEFAULT_SIZE)
        if geometry:
            self._window.restoreGeometry(geometry)
        self._size = self._window.size()
        self.fit()

    def fit_with_frame(self) -> None:
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
    if not screens:
        return frame
    screen = max(screens, key=lambda screen: _area(screen.intersected(frame)))
    size = frame.size().boundedTo(screen.size())
    left = min(max(frame.left(), screen.left()), screen.right() + 1 - size.width())
    top = min(max(frame.top(), screen.top()), screen.bottom() + 1 - size.height())
    return QRect(left, top, size.width(), size.height())


def _area(rect: QRect) -> int:
    return max(0, rect.width()) * max(0, rect.height())


class ViewStates:
    """Reader and writer of the entry `views` of the settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def restore(self, page: Page) -> None:
        """Restore the view of a page, if there is one and the user wants the last session back."""
        state = self._settings.views.get(page.key)
        if state and self._settings.preferences.reopen:
            try:
                page.restore_view(state)
            except Exception:  # a page must open, whatever an older version has stored
                _log.exception("The last view of the page %s was not restored.", page.key)

    def collected(self, pages: Mapping[str, Page]) -> dict[str, dict[str, object]]:
        """Return the views to store; a page that has not been made keeps its stored one."""
        views = dict(self._settings.views)
        for key, page in pages.items():
            try:
                views[key] = to_jsonable_python(page.view_state())
            except Exception:  # the window must close
                _log.exception("The view of the page %s was not stored.", key)
        return views
