"""The list of jobs, worked with by buttons above it, from the keyboard and by a menu."""

from collections.abc import Callable, Iterable

from PySide6.QtCore import QItemSelectionModel, Qt, Signal, SignalInstance
from PySide6.QtGui import QAction, QActionGroup, QContextMenuEvent, QGuiApplication, QKeySequence, QMouseEvent
from PySide6.QtWidgets import QAbstractItemView, QListView, QMenu

from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.job_rows import JobPainter, JobRows
from wina_core.jobs import PRIORITIES

PAUSE = "Pause after the current batch; other jobs go first and may take its engine"
RESUME = "Continue where the job was paused, as soon as an engine is free"
CANCEL = "Stop after the current batch, or 10 s later with the engine; stored results are kept"
RETRY = "Compute what is missing; stored results are kept"


class JobListView(QListView):
    """List of jobs that emits the user's requests; jobs are named by their ids."""

    pause_requested = Signal(str)
    resume_requested = Signal(str)
    cancel_requested = Signal(str)
    retry_requested = Signal(str)
    move_requested = Signal(str, object)
    """Before the job with the second id; None for the end."""
    priority_requested = Signal(str, str)
    log_requested = Signal(str)
    page_requested = Signal(str)
    specification_requested = Signal(str)

    def __init__(self, rows: JobRows) -> None:
        super().__init__()
        self.rows = rows
        self.setModel(rows)
        self.setItemDelegate(JobPainter(self))
        self.setUniformItemSizes(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setAccessibleName("Jobs")
        self._make_actions()
        self.selectionModel().selectionChanged.connect(self.update_actions)
        self.selectionModel().currentChanged.connect(self.update_actions)
        rows.dataChanged.connect(self.update_actions)
        rows.layoutChanged.connect(self.update_actions)
        rows.modelReset.connect(self.update_actions)
        self.update_actions()

    # ---- which jobs ----------------------------------------------------------------------------------------------

    @property
    def chosen(self) -> list[JobEntry]:
        """Selected jobs, in the order of their rows."""
        return [self.rows.entry(row) for row in sorted(index.row() for index in self.selectedIndexes())]

    def choose(self, job_id: str) -> None:
        index = self.rows.index(self.rows.row(job_id))
        self.selectionModel().setCurrentIndex(index, QItemSelectionModel.SelectionFlag.ClearAndSelect)

    # ---- what can be done ----------------------------------------------------------------------------------------

    def _make_actions(self) -> None:
        self.pause = self._action("Pause", self._pause, "Space")
        self.cancel = self._action("Cancel", lambda: self._each(self.cancel_requested, self._can_cancel), "Del")
        self.retry = self._action("Retry", lambda: self._each(self.retry_requested, _can_retry), "F5")
        self.up = self._action("Move up", lambda: self._move(-1), "Alt+Up")
        self.down = self._action("Move down", lambda: self._move(1), "Alt+Down")
        self.log = self._action("Show its log", lambda: self._one(self.log_requested), "Return")
        self.page = self._action("Show its page", lambda: self._one(self.page_requested))
        self.copy_text = self._action("Copy title and error", self._copy, "Ctrl+C")
        self.specification = self._action(
            "Copy the job's specification (JSON)", lambda: self._one(self.specification_requested)
        )
        self.priorities = QMenu("Priority", self)
        self._group = QActionGroup(self)
        for priority in PRIORITIES:
            action = self.priorities.addAction(priority.capitalize())
            action.setCheckable(True)
            action.setData(priority)
            action.triggered.connect(lambda _=False, priority=priority: self._prioritize(priority))
            self._group.addAction(action)

    def _action(self, text: str, do: Callable[[], object], keys: str = "") -> QAction:
        action = QAction(text, self)
        action.setShortcut(QKeySequence(keys))
        # Keys such as Space and Del mean other things outside of the list.
        action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        action.triggered.connect(lambda: do())
        self.addAction(action)
        return action

    def update_actions(self) -> None:
        """Enable what the selected jobs allow, and explain the rest in tooltips."""
        chosen = self.chosen
        one = len(chosen) == 1
        waiting = [entry for entry in chosen if entry.waiting]
        pausable = any(map(self._can_pause, chosen))
        active = any(map(self._can_cancel, chosen))
        resumes = pausable and self._resumes
        self.pause.setText("Resume" if resumes else "Pause")
        self.cancel.setText("Stop" if chosen and all(entry.serves for entry in chosen) else "Cancel")
        _enable(
            self.pause,
            pausable,
            "Only a job of an engine that has not ended can be paused",
            RESUME if resumes else PAUSE,
        )
        _enable(self.cancel, active, "Only a job that has not ended can be cancelled", CANCEL)
        _enable(
            self.retry, any(map(_can_retry, chosen)), "Only a job that failed or was cancelled can be retried", RETRY
        )
        moves = "Select one job that has not begun"
        for action in (self.up, self.down):
            _enable(action, one and bool(waiting), moves)
        _enable(self.priorities.menuAction(), bool(waiting), "Only a job that has not begun has a priority")
        for action in (self.log, self.page, self.specification):
            _enable(action, one, "Select one job")
        _enable(self.copy_text, bool(chosen), "Select a job")
        for action in self._group.actions():
            action.setChecked(any(entry.priority == action.data() for entry in waiting))

    @staticmethod
    def _can_cancel(entry: JobEntry) -> bool:
        return entry.active and entry.phase != "cancelling"

    @classmethod
    def _can_pause(cls, entry: JobEntry) -> bool:
        return cls._can_cancel(entry) and not entry.is_elsewhere

    @property
    def _resumes(self) -> bool:
        return all(entry.is_paused for entry in self.chosen if entry.active and not entry.is_elsewhere)

    def _each(self, signal: SignalInstance, test: Callable[[JobEntry], bool]) -> None:
        for entry in self.chosen:
            if test(entry):
                signal.emit(entry.id)

    def _one(self, signal: SignalInstance) -> None:
        if len(self.chosen) == 1:
            signal.emit(self.chosen[0].id)

    def _pause(self) -> None:
        self._each(self.resume_requested if self._resumes else self.pause_requested, self._can_pause)

    def _move(self, step: int) -> None:
        entry = next(iter(self.chosen), None)
        if entry is None or not entry.waiting:
            return
        waiting = [other.id for other in self._all() if other.waiting]
        position = waiting.index(entry.id) + step
        if 0 <= position < len(waiting):
            behind = position if step < 0 else position + 1
            self.move_requested.emit(entry.id, waiting[behind] if behind < len(waiting) else None)

    def _all(self) -> Iterable[JobEntry]:
        return map(self.rows.entry, range(self.rows.rowCount()))

    def _prioritize(self, priority: str) -> None:
        for entry in self.chosen:
            if entry.waiting:
                self.priority_requested.emit(entry.id, priority)

    def _copy(self) -> None:
        lines = ["\n".join(filter(None, (entry.title, entry.failure, entry.detail))) for entry in self.chosen]
        self.copy("\n".join(lines))

    def copy(self, text: str) -> None:
        QGuiApplication.clipboard().setText(text)

    # ---- menu and mouse ------------------------------------------------------------------------------------------

    def menu(self) -> QMenu:
        menu = QMenu(self)
        menu.setToolTipsVisible(True)
        menu.addActions([self.pause, self.cancel, self.retry])
        menu.addSeparator()
        menu.addActions([self.up, self.down])
        menu.addMenu(self.priorities)
        menu.addSeparator()
        menu.addActions([self.log, self.page])
        menu.addSeparator()
        menu.addActions([self.copy_text, self.specification])
        return menu

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Open the menu; from the keyboard at the current row."""
        self.update_actions()
        keyboard = event.reason() == QContextMenuEvent.Reason.Keyboard
        at = (
            self.viewport().mapToGlobal(self.visualRect(self.currentIndex()).center())
            if keyboard
            else event.globalPos()
        )
        menu = self.menu()
        menu.exec(at)
        menu.deleteLater()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        super().mouseDoubleClickEvent(event)
        self._one(self.log_requested)


def _can_retry(entry: JobEntry) -> bool:
    return entry.can_retry


def _enable(action: QAction, on: bool, reason: str, tip: str = "") -> None:
    action.setEnabled(on)
    action.setToolTip(tip if on else reason)
