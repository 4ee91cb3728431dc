"""Fetched models, each on a thread of its own."""

import threading

from PySide6.QtCore import QObject, Signal

from wina_core.errors import WinaError, unforeseen
from wina_core.jobs import Done, Failed, Progress, Started
from wina_core.jobs.hosted import FetchJob
from wina_core.model_info.small_models import SMALL_MODELS


class _Stopped(Exception):  # noqa: N818 - no error
    """End of a copy that the user cancelled."""


class Fetcher(QObject):
    """Threads that copy; what they report arrives on the main thread."""

    reported = Signal(object)
    """Events as of an engine's job."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._ends: dict[str, threading.Event] = {}

    def begin(self, job_id: str, job: FetchJob) -> None:
        """Begin or continue a copy."""
        end = self._ends[job_id] = threading.Event()
        threading.Thread(target=self._work, args=(job_id, job, end), name="fetch", daemon=True).start()

    def stop(self, job_id: str) -> None:
        """End a copy; what has come is kept for the next attempt."""
        self._ends[job_id].set()

    def stop_all(self) -> None:
        """End all copies with the window."""
        for end in self._ends.values():
            end.set()

    def _work(self, job_id: str, job: FetchJob, end: threading.Event) -> None:
        def report(done: float, total: float | None) -> None:
            if end.is_set():
                raise _Stopped
            self.reported.emit(Progress(job_id=job_id, done=done, total=total, unit="bytes"))

        try:
            self.reported.emit(Started(job_id=job_id))
            from wina_core.model_info.fetching import fetch_model

            fetch_model(SMALL_MODELS[job.model], report)
            self.reported.emit(Done(job_id=job_id))
        except _Stopped:
            self.reported.emit(Done(job_id=job_id, cancelled=True))
        except WinaError as error:
            self.reported.emit(Failed(job_id=job_id, error=str(error)))
        except RuntimeError:  # the window has closed meanwhile
            return
        except Exception as error:
            self.reported.emit(Failed(job_id=job_id, error=unforeseen(error)))
