"""Jobs of a page that write a file or a folder, each from the question before it to the message after it."""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject

from wina_app.services.workbench import Workbench
from wina_app.shared.product_question import ProductQuestion
from wina_app.widgets.base_page import Page
from wina_core.jobs import Job, ResultValue


class ExportJobs(QObject):
    """Submitter of one page's exports of one kind, which reports how they end."""

    def __init__(
        self, workbench: Workbench, view: Page, cancelled: str, saved: Callable[[ResultValue], object]
    ) -> None:
        """`cancelled` is the notice after a cancellation; `saved` is called with a result."""
        super().__init__()
        self._workbench, self._view = workbench, view
        self._cancelled, self._saved = cancelled, saved
        self._question = ProductQuestion(workbench, view)
        self._submitted_ids: set[str] = set()
        workbench.jobs.requeued.connect(self._on_requeued)
        workbench.jobs.ended.connect(self._on_job_ended)

    def start(self, job: Job, title: str, machines: tuple[str, ...] | None = None) -> None:
        """Submit a job, after a question if it first computes something long.

        It runs on `machines`, by default the chosen ones.
        """
        self._question.before(
            job, lambda: self._submitted_ids.add(self._workbench.submit(job, title, machines)), machines=machines
        )

    def _on_requeued(self, job_id: str) -> None:
        if job_id in self._submitted_ids:
            self._view.clear_message()

    def _on_job_ended(self, job_id: str) -> None:
        if job_id not in self._submitted_ids:
            return
        entry = self._workbench.jobs[job_id]
        if entry.phase == "failed":
            self._view.show_error(entry.error, retry=partial(self._workbench.retry, job_id))
        elif entry.phase == "cancelled":
            self._view.show_notice(self._cancelled)
        elif entry.result is not None:
            self._saved(entry.result)
