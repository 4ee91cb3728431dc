"""The docks around the pages: their places, and the lines to which Jobs and Log collapse."""

from collections.abc import Collection
from functools import partial

from PySide6.QtCore import QByteArray, QObject, QSize, Qt, Signal
from PySide6.QtWidgets import (
    QDockWidget,
    QMainWindow,
    QProxyStyle,
    QSizePolicy,
    QStackedWidget,
    QStyle,
    QStyleOption,
    QToolButton,
    QWidget,
)

from wina_app.services.settings import Settings
from wina_app.style.theme import GRID, HALF, notifier
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import ElidedLabel
from wina_app.widgets.plain_text import plain_tip

_OPEN, _SHUT = "\N{BLACK DOWN-POINTING SMALL TRIANGLE}", "\N{BLACK UP-POINTING SMALL TRIANGLE}"

_LAYOUT_VERSION = 2
_LOW_WINDOW = 900
"""Height in pixels below which Jobs and Log are collapsed unless the user has shown them."""
_HEIGHT = GRID * 18
_NO_LIMIT = 16_777_215
"""QWIDGETSIZE_MAX."""
_BOTTOM, _RIGHT = Qt.DockWidgetArea.BottomDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea
_LINES = (_BOTTOM, Qt.DockWidgetArea.TopDockWidgetArea)


class ThinSeparators(QProxyStyle):
    """Fusion with docks that are a pixel apart."""

    def __init__(self, parent: QObject) -> None:
        super().__init__("Fusion")
        self.setParent(parent)

    def pixelMetric(
        self, metric: QStyle.PixelMetric, option: QStyleOption | None = None, widget: QWidget | None = None
    ) -> int:
        """Return one pixel for the separators of docks."""
        if metric == QStyle.PixelMetric.PM_DockWidgetSeparatorExtent:
            return 1
        return super().pixelMetric(metric, option, widget)


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
            _button(dock, f"Float or dock: {self._name}", QStyle.StandardPixmap.SP_TitleBarNormalButton),
            _button(dock, f"Close: {self._name}", QStyle.StandardPixmap.SP_TitleBarCloseButton),
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
        shut, opened = f"Show all of: {self._name}", f"Collapse to a line: {self._name}"
        self.toggle.setAccessibleName(shut if on else opened)
        self.toggle.setToolTip(plain_tip("Collapse Jobs and Log to a line, or show all (Ctrl+Shift+J)"))

    def minimumSizeHint(self) -> QSize:
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


class Docks(QObject):
    """Jobs and log below the pages, inspector and help at their right."""

    def __init__(self, window: QMainWindow) -> None:
        super().__init__(window)
        self._window = window
        self.by_key: dict[str, QDockWidget] = {}
        self._bars: dict[QDockWidget, DockBar] = {}
        self._chosen: bool | None = None
        """Choice of the user; None for none, when the window's height decides."""
        self._height = _HEIGHT
        self._withheld: dict[str, bool] = {}
        """Docks that have nothing to show now, and True for those that the user has shown."""
        self._tips: dict[str, str] = {}
        """Tooltips of the docks' commands while they are enabled."""
        self.is_collapsed = False

    def add(self, key: str, title: str, content: QWidget, *, line: QWidget | None = None) -> None:
        """Add a dock, below the pages if it collapses to a `line`, else at their right."""
        dock = QDockWidget(title, self._window)
        dock.setObjectName(key)
        holder = QWidget()
        vbox(holder, content)
        dock.setWidget(holder)  # a dock whose own widget is hidden would be as narrow as its title
        self.by_key[key] = dock
        self._window.addDockWidget(_RIGHT if line is None else _BOTTOM, dock)
        if line is not None:
            bar = self._bars[dock] = DockBar(dock, content, line)
            bar.toggled.connect(self.toggle)
            dock.setTitleBarWidget(bar)
            dock.topLevelChanged.connect(self._apply)
            dock.dockLocationChanged.connect(self._apply)
            dock.toggleViewAction().triggered.connect(partial(self._expand, dock))

    def arrange(self) -> None:
        """Place the docks for the first time."""
        jobs, log, inspector, help_ = self.by_key.values()
        window = self._window
        window.setCorner(Qt.Corner.BottomRightCorner, _RIGHT)
        window.splitDockWidget(jobs, log, Qt.Orientation.Horizontal)
        window.resizeDocks([jobs, log], [3, 2], Qt.Orientation.Horizontal)
        window.resizeDocks([jobs], [_HEIGHT], Qt.Orientation.Vertical)
        window.tabifyDockWidget(inspector, help_)
        inspector.hide()
        help_.hide()
        self._first = window.saveState(_LAYOUT_VERSION)
        notifier().changed.connect(self._apply)

    def reset(self) -> None:
        """Move all docks to their first places, in the form that suits the window's height."""
        self._chosen, self._height = None, _HEIGHT
        self._restore_layout(self._first)
        self.fit()

    def restore(self, settings: Settings) -> None:
        """Restore places, sizes and forms."""
        self._chosen, self._height = settings.docks_collapsed, settings.docks_height or _HEIGHT
        if settings.layout:
            self._restore_layout(settings.layout, settings.docks_withheld)
        self.fit()

    def _restore_layout(self, layout: bytes | QByteArray, withheld: Collection[str] = ()) -> None:
        """Restore places and sizes; show the `withheld` docks as soon as they have something to show."""
        # restoreState shows docks as stored, even those that the current page has nothing for.
        self._window.restoreState(layout, _LAYOUT_VERSION)
        for key in {*withheld, *self._withheld} & self.by_key.keys():
            dock = self.by_key[key]
            visible = key in withheld or not dock.isHidden()
            if key in self._withheld:
                self._withheld[key] = visible
            dock.setVisible(visible and key not in self._withheld)

    def state(self) -> dict[str, object]:
        """Return the entries of the settings that `restore` reads."""
        self._keep_height()
        layout = self._window.saveState(_LAYOUT_VERSION).data()
        withheld = [key for key, chosen in self._withheld.items() if chosen]
        return {
            "layout": layout,
            "docks_collapsed": self._chosen,
            "docks_height": self._height,
            "docks_withheld": withheld,
        }

    def offer(self, key: str, reason: str = "") -> None:
        """Show a dock if the user has shown it; with a `reason` why it has nothing to show, hide it until then."""
        dock = self.by_key[key]
        action = dock.toggleViewAction()
        tip = self._tips.setdefault(key, action.toolTip())
        action.setEnabled(not reason)
        action.setToolTip(plain_tip(reason) if reason else tip)
        if not reason:
            dock.setVisible(self._withheld.pop(key, False) or not dock.isHidden())
        elif key not in self._withheld:
            self._withheld[key] = not dock.isHidden()
            dock.hide()

    def show(self, key: str) -> QDockWidget:
        """Show all of a dock, in front of those that share its place, once it has something to show."""
        dock = self.by_key[key]
        if key in self._withheld:
            self._withheld[key] = True
            return dock
        if self.is_collapsed and dock in self._bars:
            self.toggle()
        dock.show()
        dock.raise_()
        return dock

    def line(self, key: str) -> QWidget:
        return self._bars[self.by_key[key]].line

    def _expand(self, dock: QDockWidget) -> None:
        """Show all of a dock whose command was chosen while it is a line."""
        if self.is_collapsed and self._is_below(dock):
            dock.show()  # the command has hidden it
            self.toggle()

    def toggle(self) -> None:
        """Collapse Jobs and Log to a line each, or show all of them; the next start remembers it."""
        self._chosen = not self.is_collapsed
        self._collapse(self._chosen)

    def fit(self) -> None:
        """Collapse Jobs and Log in a low window, unless the user has chosen otherwise."""
        low = self._window.height() < _LOW_WINDOW
        self._collapse(low if self._chosen is None else self._chosen)

    def _collapse(self, on: bool) -> None:
        self._keep_height()
        self.is_collapsed = on
        self._apply()
        if not on:
            self._window.resizeDocks([next(iter(self._bars))], [self._height], Qt.Orientation.Vertical)

    def _keep_height(self) -> None:
        open_docks = [dock for dock in self._bars if self._is_below(dock) and dock.isVisible()]
        if open_docks and not self.is_collapsed:
            self._height = open_docks[0].height()

    def _is_below(self, dock: QDockWidget) -> bool:
        return not dock.isFloating() and self._window.dockWidgetArea(dock) in _LINES

    def _apply(self, *_: object) -> None:
        for dock, bar in self._bars.items():
            line = self.is_collapsed and self._is_below(dock)
            bar.collapse(line)
            dock.widget().setMaximumHeight(0 if line else _NO_LIMIT)
            dock.setMaximumHeight(bar.sizeHint().height() if line else _NO_LIMIT)
            if dock.isFloating() and dock.height() < self._height:  # it was a line
                dock.resize(dock.width(), self._height)


class InspectorView(QStackedWidget):
    """The inspector of the current page; the dock is hidden on a page without one."""

    def sizeHint(self) -> QSize:
        return QSize(GRID * 45, GRID * 60)

    def minimumSizeHint(self) -> QSize:
        return QSize(GRID * 30, GRID * 20)  # every inspector scrolls
