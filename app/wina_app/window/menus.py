"""The menu bar: its menus, and actions that follow the state of the window."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import cast

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction, QActionGroup, QKeySequence, QMouseEvent
from PySide6.QtWidgets import QMenu, QMenuBar, QPushButton, QWidget

from wina_app.jobs.texts import machines_text
from wina_app.services.machines import Machines
from wina_app.services.workbench import Workbench
from wina_app.style.number_format import plural
from wina_app.style.theme import MODES
from wina_app.widgets.base_page import Page, with_shortcut
from wina_app.window.messages import Toast, Toasts
from wina_app.window.status_line import StatusLine
from wina_core.specs.machine import LOCAL, Machine


@dataclass(frozen=True)
class Entry:
    """An action and its place in the menus, as the command palette lists it."""

    where: str
    action: QAction | QPushButton
    page: str = ""
    """Key of the page that the action needs; empty for none."""
    words: str = ""
    """Other words for it."""

    @property
    def text(self) -> str:
        return self.action.text().replace("&&", "\0").replace("&", "").replace("\0", "&")  # "&&" is a literal "&"

    @property
    def keys(self) -> str:
        return (
            ""
            if isinstance(self.action, QPushButton)
            else self.action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
        )

    def trigger(self) -> None:
        if isinstance(self.action, QPushButton):
            self.action.click()
        else:
            self.action.trigger()

    @property
    def searched(self) -> str:
        return f"{self.text} {self.where} {self.words}".strip()


class Menus:
    """The menus, filled by the window and the application, and the entries of the command palette."""

    def __init__(self, bar: QMenuBar, owner: QWidget) -> None:
        self._bar, self._owner = bar, owner
        self.file = self._menu("&File")
        self.recent = QMenu("Open &recent", owner)
        self.recent.setAccessibleName("Open recent")
        self.database = QMenu("Data&base", owner)
        self.database.setAccessibleName("Database")
        self.edit = self._menu("&Edit")
        self.page = self._menu("&Page")
        self.view = self._menu("&View")
        self.pages_end = self.view.addSeparator()
        self.theme = QMenu("&Theme", owner)
        self.theme.setAccessibleName("Theme")
        self.themes: dict[str, QAction] = {}
        self.run = self._menu("&Run")
        self.help = self._menu("&Help")

    def _menu(self, title: str) -> QMenu:
        menu = self._bar.addMenu(title)
        menu.setToolTipsVisible(True)
        return menu

    def add(self, menu: QMenu, text: str, do: Callable[[], object], keys: str = "", tip: str = "") -> QAction:
        action = QAction(text, self._owner)
        action.triggered.connect(lambda: do())  # without Qt's argument `checked`
        return self.append(menu, action, keys, tip)

    def append(self, menu: QMenu, action: QAction, keys: str = "", tip: str = "") -> QAction:
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
        group = QActionGroup(self._owner)
        for number, mode in enumerate(MODES, start=1):
            action = self.add(self.theme, mode.capitalize(), partial(choose, mode), f"Ctrl+Alt+{number}")
            action.setCheckable(True)
            group.addAction(action)
            self.themes[mode] = action
        self.view.addMenu(self.theme)

    def show_page(self, page: Page) -> None:
        """Fill the Page menu with the actions of a page."""
        self.page.clear()
        self.page.addActions(page.commands)
        self.page.menuAction().setText("&Page" if not page.commands else page.title)
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
    return text.replace("&", "")


def _leaves(menu: QMenu, path: str) -> Iterator[tuple[str, QAction]]:
    for action in menu.actions():
        submenu = action.menu()
        if isinstance(submenu, QMenu):
            yield from _leaves(submenu, f"{path} › {action.text()}")
        elif not action.isSeparator() and action.text():
            yield path, action


class UnfinishedJobs(QObject):
    """Two actions of the Run menu, visible while there are unfinished jobs."""

    def __init__(self, workbench: Workbench, menus: Menus, toasts: Toasts) -> None:
        super().__init__(toasts)
        self._toasts = toasts
        self._offered: Toast | None = None
        self.resume = menus.add(menus.run, "&Resume unfinished jobs", workbench.resume_unfinished, "Ctrl+Shift+U")
        self.discard = menus.add(menus.run, "&Discard unfinished jobs", workbench.discard_unfinished, "Ctrl+Alt+U")
        for action in (self.resume, self.discard):
            action.triggered.connect(lambda: self.offer(0))
        self.offer(0)
        workbench.unfinished_found.connect(self.offer)

    def offer(self, jobs: int) -> None:
        """Offer to resume so many jobs."""
        for action in (self.resume, self.discard):
            action.setVisible(jobs > 0)
        if self._offered is not None:
            self._toasts.remove(self._offered)
            self._offered = None
        if jobs:
            button = f"Resume {plural(jobs, 'unfinished jobs', 'unfinished job')}"
            text = "Continue where they stopped?"
            self._offered = self._toasts.say("Jobs", text, button, self.resume.trigger, stays=True)


class _StayingMenu(QMenu):
    """Menu that stays open while its check boxes are clicked."""

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        action = self.actionAt(event.position().toPoint())
        if action is not None and action.isCheckable() and action.isEnabled():
            action.trigger()
        else:
            super().mouseReleaseEvent(event)


class RunOn(QObject):
    """One menu with a check box for this computer, each machine and each Ray cluster."""

    def __init__(
        self, machines: Machines, menus: Menus, line: StatusLine, open_machines: Callable[[], object], parent: QWidget
    ) -> None:
        """Add the choice to the status line and the Run menu; `open_machines` opens the page of machines."""
        super().__init__(parent)
        self._machines, self._line, self._open = machines, line, open_machines
        self.menu = _StayingMenu(parent)
        self.menu.setAccessibleName("Run on")
        self.menu.setToolTipsVisible(True)
        self._boxes: dict[str, QAction] = {}
        menus.add(menus.run, "Run &on…", self.choose, "Ctrl+Alt+W", "Choose the machines that run new jobs")
        line.run_on.setMenu(self.menu)
        machines.changed.connect(self._show)
        self._show()

    def choose(self) -> None:
        """Open the choice, or the page of machines where there is none."""
        if self._machines.entries:
            self._line.run_on.showMenu()
        else:
            self._open()

    def _show(self) -> None:
        entries, chosen = self._machines.entries, self._machines.chosen or (LOCAL,)
        if list(self._boxes) != [LOCAL, *entries]:
            self._fill()
        for name, box in self._boxes.items():
            box.setChecked(name in chosen)
        for name, entry in entries.items():
            tip = entry.host if isinstance(entry, Machine) else f"Ray {entry.address}"
            self._boxes[name].setToolTip(tip)
        self._line.show_run_on(machines_text(chosen) if entries else "")

    def _fill(self) -> None:
        self.menu.clear()
        self._boxes = {LOCAL: self._box(LOCAL, "This computer")}
        self._boxes[LOCAL].setToolTip("The engines of this computer")
        self._boxes |= {name: self._box(name, name) for name in self._machines.entries}
        self.menu.addSeparator()
        self.menu.addAction("Machines…", self._open)

    def _box(self, name: str, text: str) -> QAction:
        box = self.menu.addAction(text)
        box.setCheckable(True)
        box.triggered.connect(lambda on: self._toggle(name, on))
        return box

    def _toggle(self, name: str, on: bool) -> None:
        chosen = self._machines.chosen or (LOCAL,)
        self._machines.choose([*chosen, name] if on else [other for other in chosen if other != name])
        self._show()  # one box stays checked
