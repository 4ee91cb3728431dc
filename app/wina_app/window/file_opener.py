"""Opening of model folders, studies, plans and databases from menus, dialogs and drops."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from PySide6.QtCore import QObject

from wina_app.services.workbench import Workbench
from wina_app.style.translation import tr
from wina_app.window.file_kinds import Kind, kind_of
from wina_core.errors import WinaError
from wina_core.files.addresses import has_password

_PAGES: dict[Kind, str] = {"model": "model", "study": "studies", "plan": "sparsity"}


class FileOpenerView(Protocol):
    """Interface of the window for the opener."""

    def show_page(self, key: str) -> None:
        """Show a page."""

    def show_failure(self, text: str) -> None:
        """Show an error above the page."""

    def clear_failure(self) -> None:
        """Hide the error."""

    def show_database(self, name: str, url: str) -> None:
        """Show the name of the results database."""


class FileOpener(QObject):
    """Opener of a path by its kind: a database itself, the others by `openers`."""

    def __init__(
        self, workbench: Workbench, view: FileOpenerView, openers: dict[Kind, Callable[[Path], object]]
    ) -> None:
        super().__init__()
        self._workbench, self._view, self._openers = workbench, view, openers
        self._requested: str | None = None
        self._settling = False
        """True while the database change waits for answers of the store."""
        workbench.store.opened.connect(self._on_opened)

    def open(self, path: Path) -> None:
        """Open a path on the page for its kind."""
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
        in_folder = kind == "model" and path.is_file() and path.suffix.lower() != ".gguf"
        self._openers[kind](path.parent if in_folder else path)

    def open_database(self, url: str) -> None:
        """Switch to another results database, a file or an address, unless jobs are running."""
        self._view.clear_failure()
        self._requested = url
        if not self._settling:
            self._switch()

    def new_database(self, path: Path) -> None:
        """Create an empty database in a new file."""
        path = path if path.suffix else path.with_suffix(".sqlite")
        if path.exists():
            self._view.show_failure(tr('"{path}" already exists; choose another name, or open it.', path=path))
            return
        self.open_database(str(path))

    def _switch(self, _answer: object = None) -> None:
        """Switch once the store has answered everything: an answer may submit a job for the present database."""
        store, self._settling = self._workbench.store, False
        if self._workbench.jobs.active:
            self._refused(
                tr("The results database cannot be changed while jobs run; wait for them or cancel them first.")
            )
        elif store.unanswered:
            self._settling = True
            store.ask(lambda _store: None, self._switch, self._switch)
        elif self._requested is not None:
            store.switch(self._requested, self._refused)

    def _on_opened(self, store: Any) -> None:
        from wina_core.store.connection import place_of  # with SQLAlchemy, which the store has loaded

        address = place_of(store.url)
        self._view.show_database(store.url.database or address, address if "://" in address else str(store.url))
        if self._requested is not None:
            if not has_password(self._requested):  # passwords are not stored
                self._workbench.settings.add_recent_database(self._requested)
            self._requested = None
            self._view.show_page("results")

    def _refused(self, text: str) -> None:
        self._requested = None
        self._view.show_failure(text)
