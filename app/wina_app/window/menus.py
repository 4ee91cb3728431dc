"""The menu bar: every action with its shortcut, which its tooltip names too."""

from collections.abc import Callable, Iterator

from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar, QWidget

from wina_app.style.theme import MODES
from wina_app.style.translation import tr
from wina_app.widgets.base_page import Page, with_shortcut
from wina_app.window.command_palette import Entry


class Menus:
    """Builds the menus and hands out what the palette offers. Who does what is told by whoever adds an action."""

    def __init__(self, bar: QMenuBar, owner: QWidget) -> None:
        self._bar, self._owner = bar, owner
        self.file = self._menu(tr("&File"))
        self.recent = QMenu(tr("Open &recent"), owner)
        self.recent.setAccessibleName(tr("Open recent"))
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
        """Append an action."""
        action = QAction(text, self._owner)
        action.triggered.connect(lambda: do())
        return self.append(menu, action, keys, tip)

    def append(self, menu: QMenu, action: QAction, keys: str = "", tip: str = "") -> QAction:
        """Append an action that somebody else made."""
        action.setShortcut(QKeySequence(keys))
        action.setToolTip(with_shortcut(tip or plain(action.text()), keys))
        menu.addAction(action)
        return action

    def add_page(self, title: str, show: Callable[[], object], keys: str) -> None:
        """A page's line in the View menu."""
        action = QAction(title, self._owner)
        action.triggered.connect(lambda: show())
        action.setShortcut(QKeySequence(keys))
        action.setToolTip(with_shortcut(title, keys))
        self.view.insertAction(self.pages_end, action)

    def add_themes(self, choose: Callable[[str], object]) -> None:
        """The submenu of appearances, one of which is marked."""
        group = QActionGroup(self._owner)
        names = {"system": tr("System"), "light": tr("Light"), "dark": tr("Dark")}
        for number, mode in enumerate(MODES, start=1):
            action = self.add(self.theme, names[mode], lambda mode=mode: choose(mode), f"Ctrl+Alt+{number}")
            action.setCheckable(True)
            group.addAction(action)
            self.themes[mode] = action
        self.view.addMenu(self.theme)

    def show_page(self, page: Page) -> None:
        """Offer what can be done on this page."""
        self.page.clear()
        self.page.addActions(page.commands)
        self.page.menuAction().setText(tr("&Page") if not page.commands else page.title)
        self.page.menuAction().setVisible(bool(page.commands))

    def entries(self, pages: dict[str, Page], shown: Page) -> list[Entry]:
        """All that the palette offers: what can be done here first, then the menus, then what other pages offer."""
        here = [Entry(shown.title, action, shown.key) for action in shown.commands]
        menus = [
            Entry(plain(path), action)
            for menu in (self.view, self.file, self.edit, self.run, self.help)
            for path, action in _leaves(menu, menu.title())
        ]
        others = [Entry(page.title, action, key) for key, page in pages.items() if page is not shown
                  for action in page.commands]  # fmt: skip
        return [*here, *menus, *others]

    def every(self) -> list[QAction]:
        """All actions of the menu bar, the page's included."""
        return [action for top in self._bar.actions() for _, action in _leaves(top.menu(), top.text())]


def plain(text: str) -> str:
    """A menu's text without the mark of its key."""
    return text.replace("&", "")


def _leaves(menu: QMenu, path: str) -> Iterator[tuple[str, QAction]]:
    for action in menu.actions():
        if action.menu() is not None:
            yield from _leaves(action.menu(), f"{path} › {action.text()}")
        elif not action.isSeparator() and action.text():
            yield path, action
