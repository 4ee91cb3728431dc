"""The column at the left edge of the window that switches between pages."""

from collections.abc import Mapping

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QToolButton, QWidget

from wina_app.style.icons import icon
from wina_app.style.theme import GRID, HALF, apply_stylesheet, notifier, scaled
from wina_app.widgets.boxes import vbox

_ICON = 24
_REST = 20 * GRID
"""Minimum height of menu, docks and status line together, at 100 % text size."""


class PageRail(QWidget):
    """A button with icon and title for each page."""

    page_chosen = Signal(str)

    def __init__(self, shortcuts: Mapping[str, str]) -> None:
        """Add buttons for pages, given as shortcuts by key."""
        super().__init__()
        self.setProperty("role", "rail")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Pages")
        self._group = QButtonGroup(self)
        self._group.setExclusive(True)
        self._buttons: dict[str, QToolButton] = {}
        self._column = vbox(self, margins=(HALF, GRID, HALF, GRID), spacing=HALF)
        self._column.addStretch(1)
        for key, shortcut in shortcuts.items():
            self._add(key, key.capitalize(), shortcut)
        apply_stylesheet(self)  # before the buttons are measured
        self._restyle()
        notifier().changed.connect(self._restyle)

    def _add(self, key: str, title: str, shortcut: str) -> None:
        button = QToolButton()
        button.setProperty("role", "rail-button")
        button.setText(title)
        button.setCheckable(True)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
        button.setIconSize(QSize(_ICON, _ICON))
        button.setAccessibleName(f"{title} page")
        button.setToolTip(f"{title} ({shortcut})")
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        button.clicked.connect(lambda: self.page_chosen.emit(key))
        self._group.addButton(button)
        self._column.insertWidget(len(self._buttons), button)
        self._buttons[key] = button

    def select(self, key: str) -> None:
        self._buttons[key].setChecked(True)

    def _restyle(self) -> None:
        style = Qt.ToolButtonStyle
        self._below, self._beside = QSize(GRID * 9, GRID * 7), QSize(GRID * 9, _ICON + GRID)
        for key, button in self._buttons.items():
            button.setIcon(icon(key))
            button.ensurePolished()  # sizeHint knows the style sheet only then
            button.setToolButtonStyle(style.ToolButtonTextUnderIcon)
            self._below = self._below.expandedTo(button.sizeHint())
            button.setToolButtonStyle(style.ToolButtonTextBesideIcon)
            self._beside = self._beside.expandedTo(button.sizeHint())
        self._fit()

    def minimumSizeHint(self) -> QSize:
        return QSize(self.width(), self._height_with(self._below if self._is_high else self._beside))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the titles beside the icons in a low window."""
        super().resizeEvent(event)
        self._fit()
        self.updateGeometry()

    @property
    def _is_high(self) -> bool:
        # The window's height: the rail's own changes with every dock.
        return self._height_with(self._below) + scaled(_REST) <= self.window().height()

    def _height_with(self, button: QSize) -> int:
        return len(self._buttons) * (button.height() + HALF) + 2 * GRID

    def _fit(self) -> None:
        style, below = Qt.ToolButtonStyle, self._is_high
        size = self._below if below else self._beside
        for button in self._buttons.values():
            button.setToolButtonStyle(style.ToolButtonTextUnderIcon if below else style.ToolButtonTextBesideIcon)
            button.setFixedSize(size)
        self.setFixedWidth(size.width() + GRID)
