"""The column at the window's left edge that switches between pages."""

from collections.abc import Mapping

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QButtonGroup, QToolButton, QVBoxLayout, QWidget

from wina_app.icons import icon
from wina_app.theme import GRID, HALF, font, notifier


class Rail(QWidget):
    """One button with icon and word for each page."""

    page_chosen = Signal(str)

    def __init__(self, pages: Mapping[str, tuple[str, str]]) -> None:
        """`pages` has (title, shortcut) by key."""
        super().__init__()
        self.setProperty("role", "rail")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Pages")
        self._group = QButtonGroup(self)
        self._group.setExclusive(True)
        self._buttons: dict[str, QToolButton] = {}
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(HALF, GRID, HALF, GRID)
        self._column.setSpacing(HALF)
        self._column.addStretch(1)
        for key, (title, shortcut) in pages.items():
            self._add(key, title, shortcut)
        self._restyle()
        notifier().changed.connect(self._restyle)

    def _add(self, key: str, title: str, shortcut: str) -> None:
        button = QToolButton()
        button.setProperty("role", "rail-button")
        button.setText(title)
        button.setCheckable(True)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
        button.setIconSize(QSize(24, 24))
        button.setAccessibleName(f"{title} page")
        button.setToolTip(f"{title} ({shortcut})")
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        button.clicked.connect(lambda: self.page_chosen.emit(key))
        self._group.addButton(button)
        self._column.insertWidget(len(self._buttons), button)
        self._buttons[key] = button

    def select(self, key: str) -> None:
        """Show which page is shown."""
        self._buttons[key].setChecked(True)

    def _restyle(self) -> None:
        measure = QFontMetrics(font("small"))
        widest = max((measure.horizontalAdvance(button.text()) for button in self._buttons.values()), default=0)
        width = max(GRID * 9, widest + GRID)
        for key, button in self._buttons.items():
            button.setIcon(icon(key))
            button.setFixedSize(width, GRID * 7)
        self.setFixedWidth(width + GRID)
