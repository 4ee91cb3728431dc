"""Search line for lm-eval tasks, with matches below it."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QCompleter, QHeaderView, QLineEdit, QTreeView

from wina_app.style.theme import GRID, apply_stylesheet
from wina_app.style.translation import tr
from wina_core.studies.tasks.index import TaskEntry

_REST_MS = 80
"""Pause after typing before the index is searched."""
_ROWS = 12
_KIND_WIDTH = 22 * GRID


class TaskSearch(QLineEdit):
    """Search line that emits queries, and the chosen or typed names."""

    search_requested = Signal(str)
    chosen = Signal(list)

    def __init__(self) -> None:
        super().__init__()
        self.setPlaceholderText(tr("Search all tasks"))
        self.setAccessibleName(tr("Task name"))
        self.setToolTip(tr("Tasks, groups or tags of lm-eval or a task folder, separated by commas"))
        self.setClearButtonEnabled(True)
        self._matches = QStandardItemModel(0, 2, self)
        self.popup = QTreeView()
        self.popup.setRootIsDecorated(False)
        self.popup.setAccessibleName(tr("Tasks found"))
        self.popup.setHeaderHidden(True)
        self.popup.setMinimumWidth(50 * GRID)
        completer = QCompleter(self._matches, self)
        completer.setCompletionMode(QCompleter.CompletionMode.UnfilteredPopupCompletion)
        completer.setPopup(self.popup)
        apply_stylesheet(self.popup)
        completer.setMaxVisibleItems(_ROWS)
        completer.setWidget(self)  # not QLineEdit.setCompleter, which completes whatever is typed at once
        completer.activated[str].connect(self._choose)  # type: ignore[index]  # PySide lists no overloads
        self._completer = completer
        self._rest = QTimer(self, singleShot=True, interval=_REST_MS)
        self._rest.timeout.connect(lambda: self.search_requested.emit(self._query()))
        self.textEdited.connect(lambda _: self._rest.start())
        self.returnPressed.connect(self.take)
        self.popup.installEventFilter(self)

    def take(self) -> None:
        """Choose the typed names."""
        names = [name for name in self.text().replace(",", " ").split() if name]
        self._rest.stop()
        self.popup.hide()
        if names:
            self.clear()
            self.chosen.emit(names)

    def show_matches(self, entries: Sequence[TaskEntry]) -> None:
        """Show the matches, the best first; no match closes the list."""
        self._matches.setRowCount(0)
        for entry in entries:
            self._matches.appendRow([QStandardItem(entry.name), QStandardItem(_kind(entry))])
        if not entries or not self.hasFocus() or not self._query():
            self.popup.hide()
            return
        self._completer.complete()
        header = self.popup.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.resizeSection(1, _KIND_WIDTH)

    def matches(self) -> list[str]:
        """Return the listed names."""
        return [self._matches.item(row, 0).text() for row in range(self._matches.rowCount())]

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Choose the marked row or the typed text on Enter; Qt would choose both."""
        enter = isinstance(event, QKeyEvent) and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if not enter or event.type() != QEvent.Type.KeyPress:
            return super().eventFilter(watched, event)
        marked = self.popup.selectionModel().selectedRows()
        if marked:
            self._choose(marked[0].data())
        else:
            self.take()
        return True

    def _query(self) -> str:
        return self.text().rpartition(",")[2].strip()

    def _choose(self, name: str) -> None:
        typed = self.text().rpartition(",")[0]
        self.setText(f"{typed}, {name}" if typed else name)
        self.take()


def _kind(entry: TaskEntry) -> str:
    """Return a task's output type in words, or "group" or "tag"."""
    return entry.output_type.replace("_", " ") or entry.kind if entry.kind == "task" else entry.kind
