"""Stored completions of the Playground: their list with a search, and the prompt of the one that is shown."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QHideEvent, QKeySequence, QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QMessageBox,
    QPlainTextEdit,
    QSizePolicy,
    QWidget,
)

from wina_app.pages.playground.form import SHORT, shortened
from wina_app.services.workbench import Workbench
from wina_app.shared.store_reading import StoreReading
from wina_app.style.number_format import plural
from wina_app.style.theme import GRID
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import beside, explain_disabled, method_swatch, push_button, text_label, wrap_words
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.two_line_delegate import DETAIL, TwoLineDelegate
from wina_core.records.completions import CompletionRow, StoredCompletion
from wina_core.records.texts import moment
from wina_core.studies.run_labels import model_label

LISTED = 200
"""Completions that are listed at first, and each time more are requested."""
_DAY, _MINUTES = len("2026-"), len("2026-01-01 00:00")
_DOT = " \N{MIDDLE DOT} "
_REST_MS = 150
"""Pause after typing before the search."""
_PROMPT_HEIGHT = 12 * GRID
_ID = Qt.ItemDataRole.UserRole
_NONE_SELECTED = "No completion is selected"


class HistoryPanel(QWidget):
    """Panel that lists, searches and deletes stored completions while it is visible."""

    completion_chosen = Signal(object)
    """The StoredCompletion that the user chose."""
    settings_chosen = Signal(object)
    """The StoredCompletion whose settings are to be used."""
    copy_requested = Signal()

    def __init__(self, workbench: Workbench, show_error: Callable[[str], None]) -> None:
        super().__init__()
        self._store, self._show_error = workbench.store, show_error
        self._limit = LISTED
        self._readings = 0
        """Number of readings of the list, by which late answers are dropped."""
        self._chosen: int | None = None
        self._stored: StoredCompletion | None = None
        self.reading = StoreReading(workbench, self._read, self)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Expanding)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search prompts, completions, configurations")
        self.search.setAccessibleName("Search the stored completions")
        self.search.setClearButtonEnabled(True)
        rest = QTimer(self, singleShot=True, interval=_REST_MS)
        rest.timeout.connect(lambda: self._show_more(LISTED))
        self.search.textChanged.connect(lambda _: rest.start())
        self.list = QListWidget()
        self.list.setAccessibleName("Stored completions")
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setItemDelegate(TwoLineDelegate(self.list))
        self.list.currentItemChanged.connect(lambda item: self._show(item.data(_ID)) if item is not None else None)
        self.list.itemSelectionChanged.connect(self._enable)
        self.remark = text_label("", "muted", wrap=True)
        more = "Show more completions"
        self.more = push_button("Show more", lambda: self._show_more(self._limit + LISTED), name=more)
        self.prompt = QPlainTextEdit()
        self.prompt.setReadOnly(True)
        self.prompt.setTabChangesFocus(True)
        self.prompt.setAccessibleName("Prompt of the shown completion")
        self.prompt.setFixedHeight(_PROMPT_HEIGHT)
        wrap_words(self.prompt)
        self._facts = text_label("", "muted", wrap=True)
        self.use = push_button("Use these settings", lambda: self.settings_chosen.emit(self._stored))
        self.copy = push_button("Copy", self.copy_requested.emit, name="Copy prompt and completions")
        self.delete = push_button("Delete…", self._delete, name="Delete the selected completions")
        key = QAction("Delete the selected completions", self.list)
        key.setShortcut(QKeySequence.StandardKey.Delete)
        key.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        key.triggered.connect(self.delete.click)  # does nothing while the button is disabled
        self.list.addAction(key)
        buttons = beside(self.use, self.copy, self.delete)
        rows = (self.search, self.remark, (self.list, 1), self.more, self.prompt, self._facts, buttons)
        vbox(self, *rows, margins=(2 * GRID, GRID, 2 * GRID, GRID))
        self._show_rows([])
        self._show_stored(None)

    @property
    def selected(self) -> list[int]:
        return [self.list.item(row).data(_ID) for row in range(self.list.count()) if self.list.item(row).isSelected()]

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.reading.set_visible(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.reading.set_visible(False)

    def _show_more(self, limit: int) -> None:
        self._limit = limit
        self._read()

    def _read(self) -> None:
        search, limit = self.search.text(), self._limit
        self._readings += 1
        reading = self._readings

        def answer(rows: list[CompletionRow]) -> None:
            if reading == self._readings:  # else the search has changed meanwhile
                self._show_rows(rows)

        # One more than listed says whether there are more.
        self._store.ask(lambda store: store.completions(search, limit + 1, pairs=True), answer, self._show_error)

    def _show_rows(self, rows: Sequence[CompletionRow]) -> None:
        """List completions; the selected ones stay selected."""
        selected, current = set(self.selected), self.list.currentItem()
        at = current.data(_ID) if current is not None else None
        with QSignalBlocker(self.list):
            self.list.clear()
            for row in rows[: self._limit]:
                title, details = shortened(row.prompt, 2 * SHORT), _details(row)
                item = QListWidgetItem(method_swatch(row.method), title)
                item.setData(_ID, row.id)
                item.setData(DETAIL, details)
                item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{title}: {details}")
                item.setToolTip(plain_tip(f"{row.prompt}\n{details}"))
                self.list.addItem(item)
                item.setSelected(row.id in selected)
                if row.id == at:
                    self.list.setCurrentItem(item)
        searched = self.search.text().strip()
        self.remark.setText("No stored completion matches." if searched else "Completions are listed here once stored.")
        self.remark.setVisible(not rows)
        self.more.setVisible(len(rows) > self._limit)
        self._enable()

    def _show(self, completion: int) -> None:
        self._chosen = completion

        def answer(stored: StoredCompletion) -> None:
            if completion == self._chosen:
                self._show_stored(stored)
                self.completion_chosen.emit(stored)

        self._store.ask(lambda store: store.completion(completion), answer, self._show_error)

    def _show_stored(self, stored: StoredCompletion | None) -> None:
        """Show the prompt of a completion; None for none."""
        self._stored = stored
        self.prompt.setPlainText(stored.record.point.prompt if stored else "")
        self._facts.setText(_facts(stored) if stored else "")
        for widget in (self.prompt, self._facts):
            widget.setVisible(stored is not None)
        for button in (self.use, self.copy):
            explain_disabled(button, enabled=stored is not None, reason=_NONE_SELECTED)

    def _enable(self) -> None:
        explain_disabled(self.delete, enabled=bool(self.selected), reason=_NONE_SELECTED)

    def _delete(self) -> None:
        """Delete the selected completions after a question; what is shown stays until something else is."""
        ids, yes = self.selected, QMessageBox.StandardButton.Yes
        question = f"Delete {plural(len(ids), 'stored completions', 'stored completion')} for good?"
        if not ids or QMessageBox.question(self, "Delete completions", question) != yes:
            return
        if self._chosen in ids:
            self._chosen = None
            self._show_stored(None)
        self._store.ask(lambda store: store.delete_completions(ids), lambda _: self._read(), self._show_error)


def _details(row: CompletionRow) -> str:
    """Return time, configuration, length and speed-up of a completion."""
    texts = [moment(row.recorded)[_DAY:_MINUTES], row.configuration, plural(row.tokens, "tokens", "token")]
    if row.speedup is not None:
        texts.append(f"{row.speedup:.2f} \N{MULTIPLICATION SIGN}")
    return _DOT.join(texts)


def _facts(stored: StoredCompletion) -> str:
    """Return what a completion was made with."""
    record, point = stored.record, stored.record.point
    texts = [moment(stored.recorded), model_label(point.model)]
    texts += ["chat template"] if point.chat else []
    if point.sampling.temperature:
        sampling = point.sampling
        texts += [f"temperature {sampling.temperature:g}", f"top-p {sampling.top_p:g}", f"seed {sampling.seed}"]
    texts += [record.environment.hardware] if record.environment is not None else []
    return _DOT.join(texts)
