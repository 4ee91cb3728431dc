"""The menu bar and its actions."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar, QWidget

from wina_app.style.theme import MODES
from wina_app.style.translation import tr
from wina_app.widgets.base_page import Page, with_shortcut
from wina_app.window.command_palette import Entry


class Menus:
    """The menus, filled by the window and the application, and the entries of the command palette."""

    def __init__(self, bar: QMenuBar, owner: QWidget) -> None:
        self._bar, self._owner = bar, owner
        self.file = self._menu(tr("&File"))
        self.recent = QMenu(tr("Open &recent"), owner)
        self.recent.setAccessibleName(tr("Open recent"))
        self.database = QMenu(tr("Data&base"), owner)
        self.database.setAccessibleName(tr("Database"))
        self.edit = self._menu(tr("&Edit"))
        self.page = self._menu(tr("&Page"))
        self.view = self._menu(tr("&View"))
        self.pages_end = self.view.addSeparator()
        self.theme = QMenu(tr("&Theme"), owner)
        self.theme.setAccessibleName(tr("Theme"))
        self.themes: dict[str, QAction] = {}
        self.run = self._menu(tr("&Run"))
        self.help = self._menu(tr("&Help"))

    def _menu(self, title: str) -> QMenu:
        menu = self._bar.addMenu(title)
        menu.setToolTipsVisible(True)
        return menu

    def add(self, menu: QMenu, text: str, do: Callable[[], object], keys: str = "", tip: str = "") -> QAction:
        """Append a new action."""
        action = QAction(text, self._owner)
        action.triggered.connect(lambda: do())
        return self.append(menu, action, keys, tip)

    def append(self, menu: QMenu, action: QAction, keys: str = "", tip: str = "") -> QAction:
        """Append an action and set its shortcut and tooltip."""
        action.setShortcut(QKeySequence(keys))
        action.setToolTip(with_shortcut(tip or plain(action.text()), keys))
        menu.addAction(action)
        return action

    def add_page(self, title: str, show: Callable[[], object], keys: str) -> None:
        """Add a page to the View menu."""
        action = self.add(self.view, title, show, keys)
        action.setShortcutContext(Qt.ShortcutContext.ApplicationShortcut)  # also from a dialog or a floating dock
        self.view.insertAction(self.pages_end, action)

    def add_themes(self, choose: Callable[[str], object]) -> None:
        """Add the submenu of appearances."""
        group = QActionGroup(self._owner)
        names = {"system": tr("System"), "light": tr("Light"), "dark": tr("Dark")}
        for number, mode in enumerate(MODES, start=1):
            action = self.add(self.theme, names[mode], partial(choose, mode), f"Ctrl+Alt+{number}")
            action.setCheckable(True)
            group.addAction(action)
            self.themes[mode] = action
        self.view.addMenu(self.theme)

    def show_page(self, page: Page) -> None:
        """Fill the Page menu with the actions of a page."""
        self.page.clear()
        self.page.addActions(page.commands)
        self.page.menuAction().setText(tr("&Page") if not page.commands else page.title)
        self.page.menuAction().setVisible(bool(page.commands))

    def entries(self) -> list[Entry]:
        """Return the entries of the palette for all menus but that of the page."""
        return [
            Entry(plain(path), action)
            for menu in (self.view, self.file, self.edit, self.run, self.help)
            for path, action in _leaves(menu, menu.title())
        ]

    def every(self) -> list[QAction]:
        """Return all actions of the menu bar, including those of the current page."""
        return [action for top in self._bar.actions() for _, action in _leaves(cast(QMenu, top.menu()), top.text())]


def plain(text: str) -> str:
    """Return the text of a menu without its mnemonic."""
    return text.replace("&", "")


def _leaves(menu: QMenu, path: str) -> Iterator[tuple[str, QAction]]:
    for action in menu.actions():
        submenu = action.menu()
        if isinstance(submenu, QMenu):
            yield from _leaves(submenu, f"{path} › {action.text()}")
        elif not action.isSeparator() and action.text():
            yield path, action
