"""List of stored completions, with the prompt of the one that is shown."""

from collections.abc import Sequence

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QKeySequence
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

from wina_app.pages.playground.form_state import SHORT, shortened
from wina_app.style.number_format import plural
from wina_app.style.theme import GRID, font, monospace, notifier
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import beside, explain_disabled, method_swatch, push_button, text_label, wrap_words
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.two_line_delegate import DETAIL, TwoLineDelegate
from wina_core.records.completions import CompletionRecord, CompletionRow, StoredCompletion
from wina_core.records.texts import moment
from wina_core.studies.run_labels import model_label

_DAY, _MINUTES = len("2026-"), len("2026-01-01 00:00")


def title(row: CompletionRow) -> str:
    return shortened(row.prompt, 2 * SHORT)


def details(row: CompletionRow) -> str:
    """Return time, configuration, length and speed-up of a completion."""
    texts = [moment(row.recorded)[_DAY:_MINUTES], row.configuration, plural(row.tokens, "tokens", "token")]
    if row.speedup is not None:
        texts.append(f"{row.speedup:.2f} \N{MULTIPLICATION SIGN}")
    return " \N{MIDDLE DOT} ".join(texts)


def facts(stored: StoredCompletion) -> str:
    """Return what a completion was made with."""
    record = stored.record
    texts = [moment(stored.recorded), model_label(record.point.model), *_sampling(record)]
    if record.environment is not None:
        texts.append(record.environment.hardware)
    return " \N{MIDDLE DOT} ".join(texts)


def _sampling(record: CompletionRecord) -> list[str]:
    point = record.point
    texts = ["chat template"] if point.chat else []
    if point.sampling.temperature:
        texts.append(f"temperature {point.sampling.temperature:g}")
        texts.append(f"top-p {point.sampling.top_p:g}")
        texts.append(f"seed {point.sampling.seed}")
    return texts


_REST_MS = 150
"""Pause after typing before the search."""
_PROMPT_LINES = 4
_ID = Qt.ItemDataRole.UserRole
_NONE_SELECTED = "No completion is selected"


class HistoryPanel(QWidget):
    """Panel that emits the search and what to do with the selected completions."""

    search_changed = Signal(str)
    more_requested = Signal()
    chosen = Signal(int)
    """Id of the completion to show."""
    use_requested = Signal()
    copy_requested = Signal()
    delete_requested = Signal(list)
    """Ids of the completions to delete, once the user has confirmed."""

    def __init__(self) -> None:
        super().__init__()
        self._monospaced = False
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Expanding)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search prompts, completions, configurations")
        self.search.setAccessibleName("Search the stored completions")
        self.search.setClearButtonEnabled(True)
        self._rest = QTimer(self, singleShot=True, interval=_REST_MS)
        self._rest.timeout.connect(lambda: self.search_changed.emit(self.search.text()))
        self.search.textChanged.connect(lambda _: self._rest.start())
        self.list = QListWidget()
        self.list.setAccessibleName("Stored completions")
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setItemDelegate(TwoLineDelegate(self.list))
        self.list.currentItemChanged.connect(self._on_current)
        self.list.itemSelectionChanged.connect(self._enable)
        self.remark = text_label("", "muted", wrap=True)
        self.more = push_button("Show more", self.more_requested.emit, name="Show more completions")
        self.prompt = QPlainTextEdit()
        self.prompt.setReadOnly(True)
        self.prompt.setTabChangesFocus(True)
        self.prompt.setAccessibleName("Prompt of the shown completion")
        wrap_words(self.prompt)
        self.facts = text_label("", "muted", wrap=True)
        self.use = push_button("Use these settings", self.use_requested.emit)
        self.copy = push_button("Copy", self.copy_requested.emit, name="Copy prompt and completions")
        self.delete = push_button("Delete…", self._delete, name="Delete the selected completions")
        key = QAction("Delete the selected completions", self.list)
        key.setShortcut(QKeySequence.StandardKey.Delete)
        key.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        key.triggered.connect(self.delete.click)  # does nothing while the button is disabled
        self.list.addAction(key)
        buttons = beside(self.use, self.copy, self.delete)
        margins = (2 * GRID, GRID, 2 * GRID, GRID)
        vbox(
            self, self.search, self.remark, (self.list, 1), self.more, self.prompt, self.facts, buttons, margins=margins
        )
        notifier().changed.connect(self._restyle)
        self._restyle()
        self.show_rows([], more=False, searched=False)
        self.show_stored(None)

    @property
    def selected(self) -> list[int]:
        return [self.list.item(row).data(_ID) for row in range(self.list.count()) if self.list.item(row).isSelected()]

    def show_rows(self, rows: Sequence[CompletionRow], *, more: bool, searched: bool) -> None:
        """List completions; the selected ones stay selected."""
        selected, current = set(self.selected), self.list.currentItem()
        at = current.data(_ID) if current is not None else None
        with QSignalBlocker(self.list):
            self.list.clear()
            for row in rows:
                item = QListWidgetItem(method_swatch(row.method), title(row))
                item.setData(_ID, row.id)
                item.setData(DETAIL, details(row))
                item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{title(row)}: {details(row)}")
                item.setToolTip(plain_tip("\n".join((row.prompt, details(row)))))
                self.list.addItem(item)
                item.setSelected(row.id in selected)
                if row.id == at:
                    self.list.setCurrentItem(item)
        nothing = "No stored completion matches." if searched else "Completions are listed here once stored."
        self.remark.setText(nothing)
        self.remark.setVisible(not rows)
        self.more.setVisible(more)
        self._enable()

    def show_stored(self, stored: StoredCompletion | None) -> None:
        """Show the prompt of a completion; None for none."""
        self.prompt.setPlainText(stored.record.point.prompt if stored else "")
        self.facts.setText(facts(stored) if stored else "")
        for widget in (self.prompt, self.facts):
            widget.setVisible(stored is not None)
        for button in (self.use, self.copy):
            explain_disabled(button, enabled=stored is not None, reason=_NONE_SELECTED)

    def set_monospaced(self, on: bool) -> None:
        self._monospaced = on
        self._restyle()

    def _restyle(self) -> None:
        self.prompt.setFont(monospace("body") if self._monospaced else font())
        self.prompt.setFixedHeight(self.prompt.fontMetrics().lineSpacing() * _PROMPT_LINES + 2 * GRID)

    def _enable(self) -> None:
        explain_disabled(self.delete, enabled=bool(self.selected), reason=_NONE_SELECTED)

    def _on_current(self, item: QListWidgetItem | None) -> None:
        if item is not None:
            self.chosen.emit(item.data(_ID))

    def _delete(self) -> None:
        ids = self.selected
        question = (
            f"Delete {len(ids):,} stored completion for good?"
            if len(ids) == 1
            else f"Delete {len(ids):,} stored completions for good?"
        )
        yes = QMessageBox.StandardButton.Yes
        if ids and QMessageBox.question(self, "Delete completions", question) == yes:
            self.delete_requested.emit(ids)
