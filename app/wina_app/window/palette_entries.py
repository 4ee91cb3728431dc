"""Entries of the command palette: buttons and commands of every page, and the menus."""

from collections.abc import Callable, Mapping
from functools import partial

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QPushButton

from wina_app.pages import titles
from wina_app.widgets.base_page import Page
from wina_app.window.command_palette import Entry
from wina_app.window.menus import Menus
from wina_app.window.verbs import VERBS, Verb, words_of


class ButtonAction(QAction):
    """The action of a page's button, as the button is now."""

    def __init__(self, button: QPushButton) -> None:
        super().__init__(button)
        self._button = button
        self.triggered.connect(button.click)

    def text(self) -> str:
        """Return the button's text."""
        return self._button.text()

    def toolTip(self) -> str:
        """Return the button's tooltip, with the reason if it is disabled."""
        return self._button.toolTip()

    def isEnabled(self) -> bool:
        """Return whether the button is."""
        return self._button.isEnabled()


class PaletteEntries(QObject):
    """Maker of the entries."""

    def __init__(
        self, menus: Menus, primary: QAction, make_page: Callable[[str], Page | None], run: Callable[[Entry], object]
    ) -> None:
        """`primary` is the menus' action for the button of the current page; `make_page` returns a page that may not
        have been made before; `run` does what an entry says."""
        super().__init__()
        self._menus, self._primary, self._make_page, self._run = menus, primary, make_page, run
        self._buttons: dict[QPushButton, ButtonAction] = {}
        self._verbs = {key: [self._waiting(key, titles()[key], verb) for verb in verbs] for key, verbs in VERBS.items()}

    def every(self, pages: Mapping[str, Page], current: Page) -> list[Entry]:
        """Return what the current page offers, then the menus, then the other pages."""
        other_entries = [
            entry
            for key, waiting in self._verbs.items()
            if key != current.key
            for entry in (self._of_page(pages[key]) if key in pages else waiting)
        ]
        page_entries = [
            entry for entry in self._of_page(current) if entry.action is not self._buttons.get(current.primary)
        ]
        primary = Entry(current.title, self._primary, current.key, words_of(current.key, ""))
        menus = [entry for entry in self._menus.entries() if entry.action is not self._primary]
        return [primary, *page_entries, *menus, *other_entries]

    def _of_page(self, page: Page) -> list[Entry]:
        buttons = [page.primary, *page.header_buttons()]
        commands = {command.text() for command in page.commands}  # listed once, also those that have a button
        visible = [button for button in buttons if button.text() and not button.isHidden()]
        named = [button for button in visible if f"{button.accessibleName()}…" not in commands]
        return [
            *(Entry(page.title, self._action(button), page.key, self._words(page, button)) for button in named),
            *(Entry(page.title, command, page.key, words_of(page.key, command.text())) for command in page.commands),
        ]

    def _action(self, button: QPushButton) -> ButtonAction:
        if button not in self._buttons:
            self._buttons[button] = ButtonAction(button)
        return self._buttons[button]

    @staticmethod
    def _words(page: Page, button: QPushButton) -> str:
        return words_of(page.key, "") if button is page.primary else ""

    def _waiting(self, key: str, title: str, verb: Verb) -> Entry:
        """Return an entry of a page that has not been made."""
        action = QAction(verb.text, self)
        action.triggered.connect(partial(self._make_and_run, key, verb))
        return Entry(title, action, key, verb.words)

    def _make_and_run(self, key: str, verb: Verb, _checked: bool = False) -> None:
        page = self._make_page(key)
        if page is not None:
            entries = self._of_page(page)
            matches = (
                [entry for entry in entries if entry.action.text() == verb.command] if verb.command else entries[:1]
            )
            for entry in matches[:1]:
                QTimer.singleShot(0, self, partial(self._run, entry))  # once the page is painted
