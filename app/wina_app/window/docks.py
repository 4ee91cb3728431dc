"""The docks around the pages: their places, and the lines to which Jobs and Log collapse."""

from collections.abc import Collection
from functools import partial

from PySide6.QtCore import QByteArray, QObject, Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow, QWidget

from wina_app.services.settings import Settings
from wina_app.style.theme import GRID, notifier
from wina_app.widgets.boxes import vbox
from wina_app.widgets.plain_text import plain_tip
from wina_app.window.dock_bar import DockBar

_LAYOUT_VERSION = 2
_LOW_WINDOW = 900
"""Height in pixels below which Jobs and Log are collapsed unless the user has shown them."""
_HEIGHT = GRID * 18
_NO_LIMIT = 16_777_215
"""QWIDGETSIZE_MAX."""
_BOTTOM, _RIGHT = Qt.DockWidgetArea.BottomDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea
_LINES = (_BOTTOM, Qt.DockWidgetArea.TopDockWidgetArea)


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
        """Return the line of a dock that collapses."""
        return self._bars[self.by_key[key]].line

    def _expand(self, dock: QDockWidget) -> None:
        """Show all of a dock whose command was chosen while it is a line, which Qt has hidden."""
        if self.is_collapsed and self._is_below(dock):
            dock.show()
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
