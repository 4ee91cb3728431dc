"""Toasts for jobs that end after the user has turned to something else."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from PySide6.QtCore import QObject

from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.texts import page_of
from wina_app.services.workbench import Workbench
from wina_app.style.number_format import duration
from wina_app.style.translation import tr

LONG_SECONDS = 5.0
"""Shorter jobs end without a toast."""
_BUTTONS = {
    "model": tr("Show model"),
    "rotation": tr("Show rotation"),
    "sparsity": tr("Show plan"),
    "results": tr("Show results"),
    "latency": tr("Show latency"),
    "studies": tr("Show study"),
}


class NoticesView(Protocol):
    """View of the toasts: the window."""

    def say(self, word: str, text: str, button: str, do: Callable[[], object]) -> None:
        """Show a toast with a button."""

    def show_page(self, key: str) -> None:
        """Switch to a page."""


class JobNotices(QObject):
    """Controller of a toast for each job that ends."""

    def __init__(self, workbench: Workbench, view: NoticesView, show_log: Callable[[str], object]) -> None:
        """`show_log` shows the log of the job with this id."""
        super().__init__()
        self._workbench, self._view, self._show_log = workbench, view, show_log
        workbench.jobs.ended.connect(self._on_ended)

    def _on_ended(self, job_id: str) -> None:
        entry = self._workbench.jobs[job_id]
        if not self._workbench.settings.preferences.notify or entry.phase == "cancelled":
            return
        if entry.is_interactive and entry.phase != "failed":  # it is watched as it comes
            return
        page = page_of(entry.job)
        if entry.phase == "failed":
            self._view.say(
                tr("Failed"), f"{entry.title}: {entry.failure}", tr("Show log"), partial(self._show_log, job_id)
            )
        elif entry.seconds >= LONG_SECONDS:
            self._view.say(tr("Done"), _outcome(entry), _BUTTONS[page], partial(self._view.show_page, page))


def _outcome(entry: JobEntry) -> str:
    time = duration(entry.seconds)
    if not entry.units_stored:
        return tr("{title} took {time}", title=entry.title, time=time)
    results = tr("{n} results", "{n} result", entry.units_stored)
    return tr("{title} took {time}, {results} stored", title=entry.title, time=time, results=results)
