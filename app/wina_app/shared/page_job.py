"""The one job that a page waits for: from the question before it to the message after it."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from PySide6.QtCore import QObject, Signal

from wina_app.jobs.job_entry import JobEntry
from wina_app.services.workbench import Workbench
from wina_app.shared.product_question import ProductQuestion, QuestionView
from wina_core.jobs import Job


class JobView(QuestionView, Protocol):
    """View with messages: a page, or the gate inspector."""

    def show_error(self, text: str, retry: Callable[[], object] | None = None) -> None: ...

    def show_notice(self, text: str) -> None: ...

    def clear_message(self) -> None: ...


class PageJob(QObject):
    """Runner of one job at a time, also of one that is tried again from the Jobs dock."""

    changed = Signal()
    """The job begins, advances or has ended; `entry` says how it is."""
    finished = Signal(object)
    """JobEntry of a job that is done."""

    def __init__(self, workbench: Workbench, view: JobView, cancelled: str) -> None:
        """`cancelled` is the notice after a cancellation."""
        super().__init__()
        self._workbench, self._view, self._cancelled = workbench, view, cancelled
        self._question = ProductQuestion(workbench, view)
        self._job_id: str | None = None
        self._last = ""
        """The last job, also after it ended."""
        workbench.jobs.changed.connect(self._on_changed)
        workbench.jobs.requeued.connect(self._on_requeued)
        workbench.jobs.ended.connect(self._on_ended)

    @property
    def entry(self) -> JobEntry | None:
        """Return the job that waits or runs; None without any."""
        return None if self._job_id is None else self._workbench.jobs[self._job_id]

    def ask_and_start(self, job: Job, title: str, *, silent: bool = False) -> None:
        """Start a job unless one runs, after a question if it first computes something long; `silent` starts none."""
        self._question.before(job, lambda: self.start(job, title) if self._job_id is None else None, silent=silent)

    def start(self, job: Job, title: str) -> None:
        """Start a job in place of another, which is cancelled without a word."""
        self.cancel()
        self._job_id = self._last = self._workbench.submit(job, title)
        self.changed.emit()

    def cancel(self) -> None:
        if self._job_id is not None:
            self._workbench.cancel(self._job_id)

    def pause(self) -> None:
        if self._job_id is not None:
            self._workbench.pause(self._job_id)

    def resume(self) -> None:
        if self._job_id is not None:
            self._workbench.resume(self._job_id)

    def _on_changed(self, job_id: str) -> None:
        if job_id == self._job_id and self._workbench.jobs[job_id].active:
            self.changed.emit()

    def _on_requeued(self, job_id: str) -> None:
        if job_id == self._last:
            self._job_id = job_id
            self._view.clear_message()
            self.changed.emit()

    def _on_ended(self, job_id: str) -> None:
        if job_id != self._job_id:
            return
        self._job_id = None
        entry = self._workbench.jobs[job_id]
        self.changed.emit()
        if entry.phase == "failed":
            self._view.show_error(entry.error, retry=partial(self._workbench.retry, job_id))
        elif entry.phase == "cancelled":
            self._view.show_notice(self._cancelled)
        else:
            self.finished.emit(entry)
