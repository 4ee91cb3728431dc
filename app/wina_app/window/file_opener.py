"""Opens whatever a menu, a dialog or a drop names: model folders, studies, plans and databases."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from PySide6.QtCore import QObject

from wina_app.services.workbench import Workbench
from wina_app.style.translation import tr
from wina_app.window.file_kinds import Kind, kind_of
from wina_core.errors import WinaError

_PAGES: dict[Kind, str] = {"model": "model", "study": "studies", "plan": "sparsity"}


class FileOpenerView(Protocol):
    """What the controller needs of the window."""

    def show_page(self, key: str) -> None:
        """Switch to a page."""

    def show_failure(self, text: str) -> None:
        """Say what went wrong above the page."""

    def clear_failure(self) -> None:
        """Take that away."""

    def show_database(self, name: str, url: str) -> None:
        """Say in which database the results are."""


class FileOpener(QObject):
    """`openers` does what each kind but a database needs, given the path."""

    def __init__(
        self, workbench: Workbench, view: FileOpenerView, openers: dict[Kind, Callable[[Path], object]]
    ) -> None:
        super().__init__()
        self._workbench, self._view, self._openers = workbench, view, openers
        self._asked_for: str | None = None
        self._settling = False
        """Whether it is waited for answers before the database is changed."""
        workbench.store.opened.connect(self._on_opened)

    def open(self, path: Path) -> None:
        """Open a path as what it is, on the page that it concerns."""
        self._view.clear_failure()
        try:
            kind = kind_of(path)
        except WinaError as error:
            self._view.show_failure(str(error))
            return
        if kind == "database":
            self.open_database(str(path))
            return
        self._view.show_page(_PAGES[kind])
        self._openers[kind](path.parent if kind == "model" and path.is_file() else path)

    def open_database(self, url: str) -> None:
        """Go over to another results database, a file or an SQLAlchemy URL; not while jobs write into this one."""
        self._view.clear_failure()
        self._asked_for = url
        if not self._settling:
            self._switch()

    def new_database(self, path: Path) -> None:
        """Begin an empty database in a file that is not there yet."""
        path = path if path.suffix else path.with_suffix(".sqlite")
        if path.exists():
            self._view.show_failure(tr('"{path}" exists already; choose another name, or open it.', path=path))
            return
        self.open_database(str(path))

    def _switch(self, _answer: object = None) -> None:
        """Once everything is answered that was asked: an answer may submit a job whose runs this database has."""
        store, self._settling = self._workbench.store, False
        if self._workbench.jobs.active:
            self._refused(
                tr(
                    "The results database cannot be changed while jobs run, since their results go into it; wait for "
                    "them or cancel them first."
                )
            )
        elif store.unanswered:
            self._settling = True
            store.ask(lambda _store: None, self._switch, self._switch)
        elif self._asked_for is not None:
            store.switch(self._asked_for, self._refused)

    def _on_opened(self, store: Any) -> None:
        self._view.show_database(store.url.database or str(store.url), str(store.url))
        if self._asked_for is not None:
            if urlsplit(self._asked_for).password is None:  # which would lie in the settings for all to read
                self._workbench.settings.add_recent_database(self._asked_for)
            self._asked_for = None
            self._view.show_page("results")

    def _refused(self, text: str) -> None:
        self._asked_for = None
        self._view.show_failure(text)
