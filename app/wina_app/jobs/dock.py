"""The Jobs dock: every job in the order in which they run, or the current one in a line, and their controller."""

from typing import Any

from PySide6.QtCore import QEvent, QObject, QSize, Qt, QTimer, Signal, SignalInstance
from PySide6.QtGui import QAction, QHideEvent, QShowEvent
from PySide6.QtWidgets import QProgressBar, QStackedWidget, QToolButton, QWidget

from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.job_list import JobList
from wina_app.jobs.job_list_view import JobListView
from wina_app.jobs.job_rows import BUSY, JobRows
from wina_app.jobs.texts import brief_progress, engines_text, progress_text, queue_text, state_word
from wina_app.services.workbench import Workbench
from wina_app.style.theme import GRID, HALF, notifier
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import ElidedLabel, push_button, text_label
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.scroll_page import ScrollPage
from wina_core.jobs import EvaluateJob
from wina_core.jobs.progress import MeasurementTimes

EMPTY = (
    "No jobs yet. Loading, rotating, calibrating, evaluating and serving show here, with progress and remaining time. "
    "Alt+Up and Alt+Down move waiting jobs; right-click for more."
)
_SECOND_MS, _FRAME_MS = 1_000, 100
_STEPS = 1_000
_BAR = 10 * GRID


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
        empty = text_label(EMPTY, "muted", wrap=True)
        empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        empty.setContentsMargins(GRID * 2, GRID, GRID * 2, GRID)
        self._stack = QStackedWidget()
        self._stack.addWidget(ScrollPage(empty))
        self._stack.addWidget(self.list)
        self._engines = ElidedLabel("muted")
        self.retry_all = push_button("Retry all failed", self._retry_all, role="link")
        self.clear = push_button("Clear ended", jobs.clear_ended, role="link")
        self._strip = QWidget()
        margins = (GRID * 2, 0, GRID + HALF, 0)
        actions = [_action_button(action) for action in (self.list.pause, self.list.cancel, self.list.retry)]
        hbox(self._strip, *actions, (self._engines, 1), self.retry_all, self.clear, margins=margins, spacing=HALF)
        vbox(self, self._strip, (self._stack, 1), spacing=0)
        self._clock = QTimer(self)
        self._clock.timeout.connect(self._tick)
        for signal in (self.rows.rowsInserted, self.rows.rowsRemoved, self.rows.dataChanged, self.rows.layoutChanged):
            signal.connect(self._follow)
        notifier().changed.connect(self.list.doItemsLayout)
        self._update()
        self._soon = QTimer(self, singleShot=True)
        self._soon.timeout.connect(self._update)

    def _retry_all(self) -> None:
        for entry in self._jobs:
            if entry.phase == "failed":
                self.list.retry_requested.emit(entry.id)

    def _follow(self) -> None:
        if not self._soon.isActive():
            self._soon.start()  # many rows change at once: one update, when the event loop is free

    def _update(self) -> None:
        self._stack.setCurrentIndex(1 if self.rows.rowCount() else 0)
        entries = list(self._jobs)
        failed = sum(entry.phase == "failed" for entry in entries)
        self.retry_all.setVisible(failed > 1)
        self.clear.setVisible(any(not entry.active for entry in entries))
        engines = engines_text(self._jobs) if len(self._jobs.engines) > 1 else ""
        self._engines.setText(engines.replace("\n", "  ·  "))
        self._engines.setToolTip(plain_tip(engines))
        self._strip.setVisible(bool(entries))
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
        self.list.viewport().update()
        self._follow()

    def changeEvent(self, event: QEvent) -> None:
        """Lay the rows out again for another font."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.list.doItemsLayout()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._follow()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._clock.stop()

    def sizeHint(self) -> QSize:
        return QSize(GRID * 80, GRID * 18)


def _action_button(action: QAction) -> QToolButton:
    button = QToolButton()
    button.setDefaultAction(action)
    return button


class JobLine(QWidget):
    """The Jobs dock in one line. Signals carry the job's id."""

    pause_requested = Signal(str)
    resume_requested = Signal(str)
    cancel_requested = Signal(str)

    def __init__(self, jobs: JobList) -> None:
        super().__init__()
        self._jobs = jobs
        self._entry: JobEntry | None = None
        self._state = text_label("", "muted")
        self.title = ElidedLabel()
        self._waiting = text_label("", "muted")
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("Progress of the job")
        self.bar.setFixedWidth(_BAR)
        self.amount = text_label("", "muted")
        self.pause = push_button("", self._pause_or_resume, role="link")
        self.cancel = push_button("Cancel", lambda: self._emit(self.cancel_requested), role="link")
        hbox(
            self,
            self._state,
            (self.title, 1),
            self._waiting,
            self.bar,
            self.amount,
            self.pause,
            self.cancel,
            spacing=GRID,
            margins=(HALF, 0, HALF, 0),
        )
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self._update)
        self._clock = QTimer(self, singleShot=True, interval=_SECOND_MS)
        self._clock.timeout.connect(self._update)
        for signal in (jobs.added, jobs.changed, jobs.ended, jobs.removed, jobs.requeued):
            signal.connect(lambda _: self._soon.start())
        notifier().changed.connect(self._soon.start)
        self._update()

    def _update(self) -> None:
        """Show the current job; its remaining time counts down."""
        self._soon.stop()
        ordered = self._jobs.ordered
        entry = self._entry = ordered[0] if ordered else None
        active = entry is not None and entry.active
        self._state.setVisible(entry is not None and entry.phase != "running")
        self._state.setText(state_word(entry) if entry else "")
        self.title.setText(entry.title if entry else "No jobs yet.")
        waiting = sum(job.waiting for job in ordered[1:])
        self._waiting.setVisible(waiting > 0)
        self._waiting.setText(f"and {waiting} waiting")
        self.amount.setText(brief_progress(entry) if entry else "")
        self.amount.setToolTip(plain_tip(progress_text(entry)) if entry else "")
        serves = entry is not None and entry.serves
        self._show_bar(entry if active and not serves else None)
        self.pause.setVisible(entry is not None and active and not entry.is_elsewhere)
        self.cancel.setVisible(active)
        for button in (self.pause, self.cancel):
            button.setEnabled(entry is not None and entry.phase != "cancelling")
        word = "Resume" if entry is not None and entry.is_paused else "Pause"
        self.pause.setText(word)
        title = entry.title if entry else ""
        self.pause.setAccessibleName(f"{word}: {title}")
        end = "Stop" if serves else "Cancel"
        self.cancel.setText(end)
        self.cancel.setAccessibleName(f"{end}: {title}")
        if entry is not None and entry.phase in BUSY:
            self._clock.start()

    def _show_bar(self, entry: JobEntry | None) -> None:
        self.bar.setVisible(entry is not None and entry.begun)
        fraction = entry.fraction if entry is not None else None
        moves = fraction is None and entry is not None and entry.phase in BUSY
        self.bar.setRange(0, 0 if moves else _STEPS)
        self.bar.setValue(round(_STEPS * (fraction or 0.0)))

    def _pause_or_resume(self) -> None:
        paused = self._entry is not None and self._entry.is_paused
        self._emit(self.resume_requested if paused else self.pause_requested)

    def _emit(self, signal: SignalInstance) -> None:
        if self._entry is not None:
            signal.emit(self._entry.id)


class JobsController(QObject):
    """Controller that passes the dock's requests to the workbench and estimates each job."""

    def __init__(self, workbench: Workbench, view: JobListView) -> None:
        super().__init__()
        self._workbench, self._view = workbench, view
        view.retry_requested.connect(workbench.retry)
        view.move_requested.connect(workbench.move)
        view.priority_requested.connect(workbench.prioritize)
        view.specification_requested.connect(self._copy_specification)
        workbench.jobs.added.connect(self._estimate)
        workbench.jobs.requeued.connect(self._estimate)

    def _copy_specification(self, job_id: str) -> None:
        job = self._workbench.jobs[job_id].job
        # On the store's thread: writing thousands of runs takes a while.
        self._workbench.store.ask(lambda _store: job.model_dump_json(indent=2, exclude_defaults=True), self._view.copy)

    def _estimate(self, job_id: str) -> None:
        """Expect of an evaluation the usual time of equal measurements that are stored."""
        jobs = self._workbench.jobs
        job = jobs[job_id].job
        if not isinstance(job, EvaluateJob):
            return
        hardware = self._workbench.hardware_of(jobs[job_id].machines)

        def left(store: Any) -> float | None:
            stored = job.stored or (hardware and store.unit_seconds([run.spec for run in job.runs], hardware)) or {}
            return MeasurementTimes(job.model_copy(update={"stored": stored})).left()

        def expect(seconds: float | None) -> None:
            if seconds is not None:
                jobs.expect(job_id, seconds)

        # On the store's thread: adding up thousands of runs takes a while.
        self._workbench.store.ask(left, expect)
