"""The column at the left edge of the window that switches between pages."""

from collections.abc import Mapping

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QButtonGroup, QToolButton, QWidget

from wina_app.style.icons import icon
from wina_app.style.theme import GRID, HALF, apply_stylesheet, notifier
from wina_app.widgets.boxes import vbox

_ICON = 24


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
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
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
        size = QSize(GRID * 9, _ICON + GRID)
        for key, button in self._buttons.items():
            button.setIcon(icon(key))
            button.ensurePolished()  # sizeHint knows the style sheet only then
            size = size.expandedTo(button.sizeHint())
        for button in self._buttons.values():
            button.setFixedSize(size)
        self.setFixedWidth(size.width() + GRID)
