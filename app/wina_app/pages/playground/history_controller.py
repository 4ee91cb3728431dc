"""Controller of the stored completions: list, search, show, use again and delete them."""

from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from wina_app.pages.playground.history_panel import HistoryPanel
from wina_app.services.workbench import Workbench
from wina_core.records.completions import CompletionRow, StoredCompletion

LISTED = 200
"""Completions that are listed at first, and each time more are requested."""

_REST_MS = 300
"""Least time between readings while results are stored."""


class HistoryController(QObject):
    """Reader of stored completions while they are visible."""

    completion_chosen = Signal(object)
    """The StoredCompletion that the user chose."""
    settings_chosen = Signal(object)
    """The StoredCompletion whose settings are to be used."""
    failed = Signal(str)

    def __init__(self, workbench: Workbench, view: HistoryPanel) -> None:
        super().__init__()
        self._workbench, self._view = workbench, view
        self._visible = False
        self._search, self._limit = "", LISTED
        self._readings = 0
        """Number of readings of the list, by which late answers are dropped."""
        self._chosen: int | None = None
        self._stored: StoredCompletion | None = None
        self._rest = QTimer(self, singleShot=True, interval=_REST_MS)
        self._rest.timeout.connect(self._read_if_visible)
        workbench.results_changed.connect(self._on_changed)
        workbench.stopped.connect(self._rest.stop)

    def set_visible(self, visible: bool) -> None:
        """Read the list while it is shown."""
        self._visible = visible
        if visible:
            self.read()

    def search(self, text: str) -> None:
        self._search, self._limit = text, LISTED
        self.read()

    def show_more(self) -> None:
        self._limit += LISTED
        self.read()

    def read(self) -> None:
        search, limit = self._search, self._limit
        self._readings += 1
        reading = self._readings

        def answer(rows: list[CompletionRow]) -> None:
            if reading == self._readings:  # else the search has changed meanwhile
                self._view.show_rows(rows[:limit], more=len(rows) > limit, searched=bool(search.strip()))

        # One more than listed says whether there are more.
        self._workbench.store.ask(
            lambda store: store.completions(search, limit + 1, pairs=True), answer, self.failed.emit
        )

    def show(self, completion: int) -> None:
        self._chosen = completion

        def answer(stored: StoredCompletion) -> None:
            if completion == self._chosen:
                self._stored = stored
                self._view.show_stored(stored)
                self.completion_chosen.emit(stored)

        self._workbench.store.ask(lambda store: store.completion(completion), answer, self.failed.emit)

    def use(self) -> None:
        if self._stored is not None:
            self.settings_chosen.emit(self._stored)

    def delete(self, completions: Sequence[int]) -> None:
        """Delete stored completions; what is shown stays until something else is."""
        if self._chosen in completions:
            self._chosen = self._stored = None
            self._view.show_stored(None)
        self._workbench.store.ask(
            lambda store: store.delete_completions(completions), lambda _: self.read(), self.failed.emit
        )

    def _on_changed(self) -> None:
        if self._visible and not self._rest.isActive():
            self._rest.start()  # not again at each result: many of them are one reading

    def _read_if_visible(self) -> None:
        if self._visible:
            self.read()
