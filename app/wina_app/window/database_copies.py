"""Merges, copies and backups of the results database, each on a thread of its own beside the window's work."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from PySide6.QtCore import QObject, Signal

from wina_app.services.workbench import Workbench
from wina_app.style.translation import tr
from wina_core.errors import Cancelled

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only threads do
    from wina_core.store.copying.merge import OnProgress, TableReport


class DatabaseCopiesView(Protocol):
    """Interface of the window for the copies."""

    def show_failure(self, text: str) -> None:
        """Show an error above the page."""

    def show_progress(self, word: str, text: str, cancel: Callable[[], object]) -> None:
        """Show how far the work is."""

    def end_progress(self) -> None:
        """Hide it."""

    def say(self, word: str, text: str, button: str, do: Callable[[], object]) -> None:
        """Show a toast."""

    def say_saved(self, path: Path, text: str = "") -> None:
        """Show a toast on a saved file."""


class DatabaseCopies(QObject):
    """Copies from and to the open database, one at a time. A cancelled one leaves valid databases."""

    _advanced = Signal(int)

    def __init__(self, workbench: Workbench, view: DatabaseCopiesView) -> None:
        super().__init__()
        self._workbench, self._view = workbench, view
        self._place = ""
        """URL of the open database."""
        self._text = ""
        """Description of the work under way; empty without any."""
        self._cancelled = False
        workbench.store.opened.connect(self._on_opened)
        self._advanced.connect(self._on_advanced)

    def merge_from(self, path: Path) -> None:
        """Merge another database into the open one."""
        self._start(
            tr("Merging {name}", name=path.name),
            partial(_merge, str(path), self._place),
            lambda reports: self._on_merged(path, reports),
        )

    def copy_to(self, path: Path) -> None:
        """Copy the open database into a file, which may be a database with other results."""

        def copied(reports: "list[TableReport]") -> None:
            self._view.say_saved(path, tr("{rows} copied to {name}", rows=_written(reports), name=path.name))

        self._start(tr("Copying to {name}", name=path.name), partial(_merge, self._place, str(path)), copied)

    def back_up(self, path: Path) -> None:
        """Copy the open database to a new file."""
        self._start(
            tr("Backing up to {name}", name=path.name), partial(_back_up, self._place, path), self._view.say_saved
        )

    def _start(self, text: str, work: "Callable[[OnProgress], Any]", done: Callable[[Any], object]) -> None:
        if self._text:
            self._view.show_failure(tr("{work} is under way; wait for it or cancel it.", work=self._text))
            return
        self._text, self._cancelled = text, False
        shown = -1

        def on_progress(finished: int, total: int) -> None:
            nonlocal shown
            if self._cancelled:
                raise Cancelled
            if (percent := 100 * finished // max(total, 1)) != shown:
                shown = percent
                self._advanced.emit(percent)

        def question() -> object:
            try:
                return work(on_progress)
            except Cancelled:
                return None

        def answer(found: Any) -> None:
            self._end()
            if found is not None:
                done(found)

        def refused(reason: str) -> None:
            self._end()
            self._view.show_failure(reason)

        self._on_advanced(0)
        self._workbench.checks.ask(question, answer, refused)

    def _on_advanced(self, percent: int) -> None:
        if self._text:
            self._view.show_progress(tr("Database"), f"{self._text}: {percent} %", self._cancel)

    def _cancel(self) -> None:
        self._cancelled = True

    def _end(self) -> None:
        self._text = ""
        self._view.end_progress()
        self._workbench.store.write(lambda _store: None, self._view.show_failure)  # `changed` follows

    def _on_merged(self, path: Path, reports: "list[TableReport]") -> None:
        text = tr("{rows} from {name}; all were read again and compared", rows=_written(reports), name=path.name)
        self._view.say(tr("Merged"), text, "", lambda: None)

    def _on_opened(self, store: Any) -> None:
        self._place = store.url.render_as_string(hide_password=False)


def _written(reports: "list[TableReport]") -> str:
    return tr("{n} new or newer rows", "{n} new or newer row", sum(each.written for each in reports))


def _merge(source: str, target: str, on_progress: "OnProgress") -> "list[TableReport]":
    from wina_core.store.copying.merge import copy_database

    return copy_database(source, target, on_progress)


def _back_up(place: str, path: Path, on_progress: "OnProgress") -> Path:
    from wina_core.store.copying.backup import back_up_database

    return back_up_database(place, path, on_progress)
