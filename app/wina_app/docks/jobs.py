"""The Jobs dock: every job with its state, progress and remaining time, in the order in which they run."""

from PySide6.QtCore import QEvent, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QWidget

from wina_app.docks.job_list_view import JobListView
from wina_app.docks.job_painter import BUSY
from wina_app.docks.job_rows import JobRows
from wina_app.jobs.job_list import JobList
from wina_app.jobs.texts import engines_text, queue_text
from wina_app.style.theme import GRID, HALF, notifier
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import ElidedLabel, push_button, text_label
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.scroll_page import ScrollPage

EMPTY = tr(
    "No jobs yet. Loading, rotating, calibrating, evaluating and serving show here, with progress and remaining time. "
    "Drag waiting jobs into another order, or move them with Alt+Up and Alt+Down; right-click for more."
)
_SECOND_MS, _FRAME_MS = 1_000, 100


class JobsView(QWidget):
    """All jobs in the order in which they run, then the ended ones, the latest at the top."""

    title_changed = Signal(str)
    """The dock's title: the number of running and waiting jobs, and their remaining time."""

    def __init__(self, jobs: JobList) -> None:
        super().__init__()
        self._jobs = jobs
        self._title = ""
        self.rows = JobRows(jobs)
        self.list = JobListView(self.rows)
        self.pause_requested = self.list.pause_requested
        self.resume_requested = self.list.resume_requested
        self.cancel_requested = self.list.cancel_requested
        self.retry_requested = self.list.retry_requested
        self.move_requested = self.list.move_requested
        self.priority_requested = self.list.priority_requested
        self.log_requested = self.list.log_requested
        self.page_requested = self.list.page_requested
        self.specification_requested = self.list.specification_requested
        empty = text_label(EMPTY, "muted", wrap=True)
        empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        empty.setContentsMargins(GRID * 2, GRID, GRID * 2, GRID)
        self._stack = QStackedWidget()
        self._stack.addWidget(ScrollPage(empty))
        self._stack.addWidget(self.list)
        self._engines = ElidedLabel("muted")
        self.retry_all = push_button(tr("Retry all failed"), self._retry_all, role="link")
        self.clear = push_button(tr("Clear ended"), jobs.clear_ended, role="link")
        self._strip = QWidget()
        margins = (GRID * 2, 0, GRID + HALF, 0)
        hbox(self._strip, (self._engines, 1), self.retry_all, self.clear, margins=margins, spacing=HALF)
        vbox(self, self._strip, (self._stack, 1), spacing=0)
        self._clock = QTimer(self)
        self._clock.timeout.connect(self._tick)
        for signal in (self.rows.rowsInserted, self.rows.rowsRemoved, self.rows.dataChanged, self.rows.layoutChanged):
            signal.connect(self._follow)
        notifier().changed.connect(self.list.doItemsLayout)
        self._update()
        self._soon = QTimer(self, singleShot=True)
        self._soon.timeout.connect(self._update)

    def copy(self, text: str) -> None:
        """Put a text into the clipboard."""
        self.list.copy(text)

    def _retry_all(self) -> None:
        for entry in self._jobs:
            if entry.phase == "failed":
                self.retry_requested.emit(entry.id)

    def _follow(self) -> None:
        """Update once the event loop is free."""
        if not self._soon.isActive():
            self._soon.start()

    def _update(self) -> None:
        self._stack.setCurrentIndex(1 if self.rows.rowCount() else 0)
        entries = list(self._jobs)
        failed = sum(entry.phase == "failed" for entry in entries)
        self.retry_all.setVisible(failed > 1)
        self.clear.setVisible(any(not entry.active for entry in entries))
        engines = engines_text(self._jobs) if len(self._jobs.engines) > 1 else ""
        self._engines.setText(engines.replace("\n", "  ·  "))
        self._engines.setToolTip(plain_tip(engines))
        self._strip.setVisible(bool(engines) or any(not entry.active for entry in entries))
        running = [entry for entry in entries if entry.phase in BUSY]
        moving = any(entry.fraction is None and not entry.serves for entry in running)
        if running and self.isVisible():
            self._clock.start(_FRAME_MS if moving else _SECOND_MS)
        else:
            self._clock.stop()
        title = queue_text(self._jobs)
        if title != self._title:
            self._title = title
            self.title_changed.emit(title)

    def _tick(self) -> None:
        """Repaint remaining times and moving bars."""
        self.list.viewport().update()
        self._follow()

    def changeEvent(self, event: QEvent) -> None:
        """Lay the rows out again for another font."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.list.doItemsLayout()

    def showEvent(self, event: QShowEvent) -> None:
        """Start the clock if a job runs."""
        super().showEvent(event)
        self._follow()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop the clock."""
        super().hideEvent(event)
        self._clock.stop()

    def sizeHint(self) -> QSize:
        """Return a size for about three jobs."""
        return QSize(GRID * 80, GRID * 18)
