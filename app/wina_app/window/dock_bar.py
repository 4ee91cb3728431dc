"""The title bar of a dock that collapses to this one line."""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QDockWidget, QSizePolicy, QStyle, QToolButton, QWidget

from wina_app.style.theme import GRID, HALF
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import ElidedLabel
from wina_app.widgets.plain_text import plain_tip

_OPEN, _SHUT = "\N{BLACK DOWN-POINTING SMALL TRIANGLE}", "\N{BLACK UP-POINTING SMALL TRIANGLE}"


class DockBar(QWidget):
    """A button with the dock's name that collapses it, and its title, or its `line` while it is collapsed."""

    toggled = Signal()

    def __init__(self, dock: QDockWidget, content: QWidget, line: QWidget) -> None:
        super().__init__()
        self.setProperty("role", "dock-bar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._name, self._content, self.line = dock.windowTitle(), content, line
        self.toggle = QToolButton()
        self.toggle.setProperty("role", "collapsible")
        self.toggle.clicked.connect(self.toggled)
        self._title = ElidedLabel("muted")
        self._title.setText("")
        buttons = (
            _button(dock, tr("Float or dock: {dock}", dock=self._name), QStyle.StandardPixmap.SP_TitleBarNormalButton),
            _button(dock, tr("Close: {dock}", dock=self._name), QStyle.StandardPixmap.SP_TitleBarCloseButton),
        )
        buttons[0].clicked.connect(lambda: dock.setFloating(not dock.isFloating()))
        buttons[1].clicked.connect(dock.close)
        margins = (GRID, 0, HALF, 0)
        hbox(self, self.toggle, (self._title, 1), (line, 1), *buttons, margins=margins, spacing=HALF)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        dock.windowTitleChanged.connect(self._show_title)
        self.collapse(False)

    def collapse(self, on: bool) -> None:
        """Show the line in place of the title and the content."""
        self._content.setVisible(not on)
        self.line.setVisible(on)
        self._title.setVisible(not on)
        self.toggle.setText(f"{_SHUT if on else _OPEN} {self._name}")
        shut, opened = tr("Show all of: {dock}", dock=self._name), tr("Collapse to a line: {dock}", dock=self._name)
        self.toggle.setAccessibleName(shut if on else opened)
        self.toggle.setToolTip(plain_tip(tr("Collapse Jobs and Log to a line, or show all (Ctrl+Shift+J)")))

    def minimumSizeHint(self) -> QSize:
        """Return the height of a line, and no more than the name for the width."""
        return QSize(self.toggle.minimumSizeHint().width() + 8 * GRID, self.sizeHint().height())

    def _show_title(self, title: str) -> None:
        self._title.setText(title.removeprefix(self._name).lstrip(" \N{MIDDLE DOT}"))


def _button(dock: QDockWidget, name: str, drawing: QStyle.StandardPixmap) -> QToolButton:
    button = QToolButton()
    button.setIcon(dock.style().standardIcon(drawing))
    button.setIconSize(QSize(10, 10))
    button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    button.setAccessibleName(name)
    button.setToolTip(plain_tip(name))
    return button
