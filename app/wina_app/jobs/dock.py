"""The Jobs dock: every job with its state, progress and remaining time, in the order in which they run."""

from PySide6.QtCore import QEvent, QSize, Qt, QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QStackedWidget, QVBoxLayout, QWidget

from wina_app.jobs.job_list import JobList
from wina_app.jobs.list_model import JobRows
from wina_app.jobs.list_view import JobListView
from wina_app.jobs.painter import BUSY
from wina_app.jobs.texts import engines_text, progress_text, queue_text
from wina_app.style.theme import GRID, HALF, notifier
from wina_app.style.translation import tr
from wina_app.widgets.controls import ElidedLabel, text_label
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.scroll_page import ScrollPage

__all__ = ["EMPTY", "JobsView", "progress_text"]

EMPTY = tr(
    "No jobs yet. Loading, rotating, calibrating and evaluating show here, with progress and remaining time. "
    "What waits can be dragged into another order, or moved with Alt+Up and Alt+Down; a right-click offers the rest."
)
_SECOND_MS, _FRAME_MS = 1_000, 100


class JobsView(QWidget):
    """All jobs: those to come in the order in which they run, then the ended ones, the latest at the top."""

    pause_requested = Signal(str)
    resume_requested = Signal(str)
    cancel_requested = Signal(str)
    retry_requested = Signal(str)
    move_requested = Signal(str, object)
    priority_requested = Signal(str, str)
    log_requested = Signal(str)
    page_requested = Signal(str)
    specification_requested = Signal(str)
    title_changed = Signal(str)
    """The dock's title: how many run and wait, and how long that takes."""

    def __init__(self, jobs: JobList) -> None:
        super().__init__()
        self._jobs = jobs
        self._title = ""
        self.rows = JobRows(jobs)
        self.list = JobListView(self.rows)
        for name in (
            "pause_requested",
            "resume_requested",
            "cancel_requested",
            "retry_requested",
            "move_requested",
            "priority_requested",
            "log_requested",
            "page_requested",
            "specification_requested",
        ):
            getattr(self.list, name).connect(getattr(self, name))
        empty = text_label(EMPTY, "muted", wrap=True)
        empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        empty.setContentsMargins(GRID * 2, GRID, GRID * 2, GRID)
        self._stack = QStackedWidget()
        self._stack.addWidget(ScrollPage(empty))
        self._stack.addWidget(self.list)
        self._engines = ElidedLabel("muted")
        self.retry_all = _link(tr("Retry all failed"), self._retry_all)
        self.clear = _link(tr("Clear ended"), jobs.clear_ended)
        self._strip = QWidget()
        strip = QHBoxLayout(self._strip)
        strip.setContentsMargins(GRID * 2, 0, GRID + HALF, 0)
        strip.setSpacing(HALF)
        strip.addWidget(self._engines, 1)
        strip.addWidget(self.retry_all)
        strip.addWidget(self.clear)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._strip)
        column.addWidget(self._stack, 1)
        self._clock = QTimer(self)
        self._clock.timeout.connect(self._tick)
        for signal in (self.rows.rowsInserted, self.rows.rowsRemoved, self.rows.dataChanged, self.rows.layoutChanged):
            signal.connect(self._follow)
        notifier().changed.connect(self.list.doItemsLayout)
        self._update()
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.timeout.connect(self._update)

    def copy(self, text: str) -> None:
        """Put a text into the clipboard."""
        self.list.copy(text)

    def _retry_all(self) -> None:
        for entry in self._jobs:
            if entry.state == "failed":
                self.retry_requested.emit(entry.id)

    def _follow(self) -> None:
        """Once for everything that happens in one go."""
        if not self._soon.isActive():
            self._soon.start()

    def _update(self) -> None:
        self._stack.setCurrentIndex(1 if self.rows.rowCount() else 0)
        entries = list(self._jobs)
        failed = sum(entry.state == "failed" for entry in entries)
        self.retry_all.setVisible(failed > 1)
        self.clear.setVisible(any(not entry.active for entry in entries))
        engines = engines_text(self._jobs) if len(self._jobs.engines) > 1 else ""
        self._engines.setText(engines.replace("\n", "  ·  "))
        self._engines.setToolTip(plain_tip(engines))
        self._strip.setVisible(bool(engines) or any(not entry.active for entry in entries))
        running = [entry for entry in entries if entry.state in BUSY]
        moving = any(entry.fraction is None for entry in running)
        if running and self.isVisible():
            self._clock.start(_FRAME_MS if moving else _SECOND_MS)
        else:
            self._clock.stop()
        title = queue_text(self._jobs)
        if title != self._title:
            self._title = title
            self.title_changed.emit(title)

    def _tick(self) -> None:
        """What is left counts down, and what has no measure moves."""
        self.list.viewport().update()
        self._follow()

    def changeEvent(self, event: QEvent) -> None:
        """A larger font takes higher rows."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.list.doItemsLayout()

    def showEvent(self, event: QEvent) -> None:
        """Nothing moves while nobody looks."""
        super().showEvent(event)
        self._follow()

    def hideEvent(self, event: QEvent) -> None:
        """As above."""
        super().hideEvent(event)
        self._clock.stop()

    def sizeHint(self) -> QSize:
        """About three jobs."""
        return QSize(GRID * 80, GRID * 18)


def _link(text: str, do: object) -> QPushButton:
    button = QPushButton(text)
    button.setProperty("role", "link")
    button.setAccessibleName(text)
    button.clicked.connect(do)
    return button
