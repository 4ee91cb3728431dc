"""Engine, jobs and memory in the status line."""

from PySide6.QtCore import QObject, QTimer, SignalInstance

from wina_app.jobs.texts import engines_text, queue_text
from wina_app.services.workbench import Workbench
from wina_app.window.status_line import StatusLine

_SAMPLE_MS = 2_000


class EngineStatus(QObject):
    """Controller of the status line."""

    def __init__(self, workbench: Workbench, line: StatusLine, queue_changed: SignalInstance) -> None:
        super().__init__(line)
        self._workbench, self._line = workbench, line
        self._is_stopping = False
        self._sampler = QTimer(self)
        self._sampler.timeout.connect(self._sample)
        self._sampler.start(_SAMPLE_MS)
        queue_changed.connect(self._show_queue)
        workbench.environment_changed.connect(self._on_environment)
        workbench.jobs.added.connect(self._sample)
        workbench.jobs.ended.connect(self._sample)
        workbench.store.waits.connect(line.show_waiting)

    def show_stopping(self, stopping: bool) -> None:
        """Show whether the engine is being stopped."""
        self._is_stopping = stopping
        self._sample()
        if stopping:
            self._sampler.stop()
        else:
            self._sampler.start()

    def _on_environment(self) -> None:
        if self._workbench.environment is not None:
            self._line.show_environment(self._workbench.environment, self._workbench.notice)
        self._sample()

    def _sample(self) -> None:
        pid = self._workbench.engine_pid
        running = any(entry.phase in ("running", "pausing", "cancelling") for entry in self._workbench.jobs.active)
        if self._is_stopping:
            state = "stopping"
        elif self._workbench.environment is None:
            state = "starting"
        elif pid is None:
            state = "stopped"
        else:
            state = "working" if running else "ready"
        self._line.show_engine(state)
        self._show_queue()
        self._line.show_memory(pid)

    def _show_queue(self) -> None:
        self._line.show_jobs(queue_text(self._workbench.jobs), engines_text(self._workbench.jobs))
