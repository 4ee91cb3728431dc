"""Merge of another database into the open one, on a thread of its own beside the window's work."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from PySide6.QtCore import QObject, Signal

from wina_app.services.workbench import Workbench
from wina_app.style.translation import tr
from wina_core.errors import Cancelled


class DatabaseMergeView(Protocol):
    """Interface of the window for a merge."""

    def show_failure(self, text: str) -> None:
        """Show an error above the page."""

    def show_progress(self, word: str, text: str, cancel: Callable[[], object]) -> None:
        """Show how far the work is."""

    def end_progress(self) -> None:
        """Hide it."""

    def say(self, word: str, text: str, button: str, do: Callable[[], object]) -> None:
        """Show a toast."""


class DatabaseMerge(QObject):
    """Merges into the open database, one at a time. A cancelled one leaves a valid database."""

    _advanced = Signal(int)

    def __init__(self, workbench: Workbench, view: DatabaseMergeView) -> None:
        super().__init__()
        self._workbench, self._view = workbench, view
        self._url = ""
        """URL of the open database."""
        self._source = ""
        """Name of the file that is being merged; empty without any."""
        self._cancelled = False
        workbench.store.opened.connect(self._on_opened)
        self._advanced.connect(self._on_advanced)

    def merge_from(self, path: Path) -> None:
        """Merge another database into the open one."""
        if self._source:
            text = tr("{name} is being merged; wait for it or cancel it.", name=self._source)
            self._view.show_failure(text)
            return
        self._source, self._cancelled = path.name, False
        url = self._url
        last_percent = -1

        def on_progress(finished: int, total: int) -> None:
            nonlocal last_percent
            if self._cancelled:
                raise Cancelled
            if (percent := 100 * finished // max(total, 1)) != last_percent:
                last_percent = percent
                self._advanced.emit(percent)

        def question() -> int | None:
            from wina_core.store import Store  # SQLAlchemy takes a second to import: only threads do
            from wina_core.store.merge import merge_database

            try:
                with Store(url) as store:
                    return sum(merge_database(path, store, on_progress).values())
            except Cancelled:
                return None

        def answer(added: int | None) -> None:
            self._end()
            if added is not None:
                rows = tr("{n} new rows", "{n} new row", added)
                self._view.say(tr("Merged"), tr("{rows} from {name}", rows=rows, name=path.name), "", lambda: None)

        def refused(reason: str) -> None:
            self._end()
            self._view.show_failure(reason)

        self._on_advanced(0)
        self._workbench.checks.ask(question, answer, refused)

    def _on_advanced(self, percent: int) -> None:
        if self._source:
            text = tr("Merging {name}: {percent} %", name=self._source, percent=percent)
            self._view.show_progress(tr("Database"), text, self._cancel)

    def _cancel(self) -> None:
        self._cancelled = True

    def _end(self) -> None:
        self._source = ""
        self._view.end_progress()
        self._workbench.store.write(lambda _store: None, self._view.show_failure)  # `changed` follows

    def _on_opened(self, store: Any) -> None:
        self._url = store.url.render_as_string(hide_password=False)
