"""The status line: engine, jobs, device, memory and database."""

from PySide6.QtCore import QSize, Qt, QTimer, SignalInstance
from PySide6.QtWidgets import QLabel, QStatusBar, QToolButton, QWidget

from wina_app.jobs.texts import engines_text, queue_text
from wina_app.services.workbench import Workbench
from wina_app.style.icons import icon
from wina_app.style.number_format import size
from wina_app.style.theme import HALF, notifier, state_colour
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import ElidedLabel, text_label
from wina_app.widgets.plain_text import plain_tip
from wina_core.records import Environment

_LOOK = {"ready": "done", "working": "running", "starting": "queued", "stopped": "failed", "stopping": "cancelled"}

_SAMPLE_MS = 2_000


class StatusLine(QStatusBar):
    """The status line, which follows the workbench."""

    def __init__(self, workbench: Workbench, queue_changed: SignalInstance) -> None:
        super().__init__()
        self._workbench, self._is_stopping = workbench, False
        self.setSizeGripEnabled(False)
        self._state = "starting"
        self._icon = QLabel()
        self._engine, self._device, self._memory = (text_label("") for _ in range(3))
        self._database = ElidedLabel(elide=Qt.TextElideMode.ElideMiddle)
        self._database.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        engine = QWidget()
        hbox(engine, self._icon, self._engine, margins=(2 * HALF, 0, 0, 0), spacing=0)
        self._jobs = text_label("")
        self._server = text_label("")
        self._server.hide()
        self._notice = text_label("No C++ kernels: gating is slow")
        self._notice.hide()
        self.run_on = QToolButton()
        self.run_on.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.run_on.setToolTip("Machines that run new jobs")
        self.run_on.hide()
        left = (engine, self.run_on, self._jobs, self._server, self._device, self._notice, self._memory)
        for widget in left:
            self.addWidget(widget)
        self.addPermanentWidget(self._database, 1)
        self._memory.setToolTip("Resident memory of the engine process, and memory available on the machine")
        self._restyle()
        notifier().changed.connect(self._restyle)
        self._sampler = QTimer(self)
        self._sampler.timeout.connect(self._sample)
        self._sampler.start(_SAMPLE_MS)
        queue_changed.connect(self._show_queue)
        workbench.environment_changed.connect(self._on_environment)
        workbench.jobs.added.connect(self._sample)
        workbench.jobs.ended.connect(self._sample)

    def _restyle(self) -> None:
        look = _LOOK[self._state]
        self._icon.setPixmap(icon(look, state_colour(look).name()).pixmap(QSize(14, 14)))
        text = f"Engine {self._state}"
        self._engine.setText(text)
        self._engine.setAccessibleName(text)

    def _show_queue(self) -> None:
        """Show how many jobs run, wait and are paused, and in the tooltip the work of each engine."""
        text = queue_text(self._workbench.jobs)
        self._jobs.setText(text)
        self._jobs.setVisible(bool(text))
        self._jobs.setToolTip(plain_tip(engines_text(self._workbench.jobs)))

    def show_run_on(self, machines: str) -> None:
        """Show the machines that run new jobs; nothing without a text."""
        text = f"Runs on {machines}"
        self.run_on.setText(text)
        self.run_on.setAccessibleName(text)
        self.run_on.setVisible(bool(machines))

    def show_server(self, text: str, tip: str) -> None:
        """Show the model that is served; nothing without a text."""
        self._server.setText(text)
        self._server.setVisible(bool(text))
        self._server.setToolTip(plain_tip(tip))

    def show_environment(self, environment: Environment, notice: str) -> None:
        """Show the device of the engine, and a warning with this tooltip if there is a notice."""
        self._device.setText(f"{environment.device}: {environment.hardware}")
        versions = "\n".join(f"{name} {version}" for name, version in environment.versions.items())
        self._device.setToolTip(plain_tip(versions))
        self._notice.setVisible(bool(notice))
        self._notice.setToolTip(plain_tip(notice))

    def _show_memory(self, pid: int | None) -> None:
        """Show the memory of the engine process and of the machine; takes microseconds."""
        import psutil  # type: ignore[import-untyped]  # 20 ms, not before the first paint

        available = size(psutil.virtual_memory().available)
        try:
            used = size(psutil.Process(pid).memory_info().rss) if pid else ""
        except psutil.NoSuchProcess:
            used = ""
        if used:
            self._memory.setText(f"Engine memory {used}, {available} free")
        else:
            self._memory.setText(f"{available} free")

    def show_database(self, name: str, url: str) -> None:
        self._database.setText(f"Database {name}")
        self._database.setToolTip(plain_tip(url))

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
            self.show_environment(self._workbench.environment, self._workbench.notice)
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
        if state != self._state:
            self._state = state
            self._restyle()
        self._show_queue()
        self._show_memory(pid)
