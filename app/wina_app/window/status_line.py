"""The line at the bottom: engine, device, memory, database."""

import psutil
from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QStatusBar, QWidget

from wina_app.style.icons import icon
from wina_app.style.number_format import size
from wina_app.style.theme import HALF, notifier, state_colour
from wina_app.style.translation import tr
from wina_app.widgets.controls import ElidedLabel, text_label
from wina_app.widgets.plain_text import plain_tip
from wina_core.records import Environment

_LOOK = {"ready": "done", "working": "running", "starting": "queued", "stopped": "failed", "stopping": "cancelled"}


class StatusLine(QStatusBar):
    """Shows; the main window tells it what."""

    def __init__(self) -> None:
        super().__init__()
        self.setSizeGripEnabled(False)
        self._state = "starting"
        self._icon = QLabel()
        self._engine, self._device, self._memory = (text_label("") for _ in range(3))
        self._database = ElidedLabel(elide=Qt.TextElideMode.ElideMiddle)
        self._database.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        engine = QWidget()
        row = QHBoxLayout(engine)
        row.setContentsMargins(HALF * 2, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self._icon)
        row.addWidget(self._engine)
        self.addWidget(engine)
        self.addWidget(self._device)
        self.addWidget(self._memory)
        self.addPermanentWidget(self._database, 1)
        self._memory.setToolTip(tr("Resident memory of the engine process, and what the machine has available"))
        self._restyle()
        notifier().changed.connect(self._restyle)

    def show_engine(self, state: str) -> None:
        """One of "starting", "ready", "working", "stopping", "stopped"."""
        if state != self._state:
            self._state = state
            self._restyle()

    def _restyle(self) -> None:
        look = _LOOK[self._state]
        self._icon.setPixmap(icon(look, state_colour(look).name()).pixmap(QSize(14, 14)))
        said = {
            "starting": tr("Engine starting"),
            "ready": tr("Engine ready"),
            "working": tr("Engine working"),
            "stopping": tr("Engine stopping"),
            "stopped": tr("Engine stopped"),
        }[self._state]
        self._engine.setText(said)
        self._engine.setAccessibleName(said)

    def show_environment(self, environment: Environment) -> None:
        """Where the engine computes."""
        self._device.setText(f"{environment.device}: {environment.hardware}")
        versions = "\n".join(f"{name} {version}" for name, version in environment.versions.items())
        self._device.setToolTip(plain_tip(versions))

    def show_memory(self, pid: int | None) -> None:
        """Sample the memory of the engine and of the machine; microseconds."""
        available = size(psutil.virtual_memory().available)
        try:
            used = size(psutil.Process(pid).memory_info().rss) if pid else ""
        except psutil.NoSuchProcess:
            used = ""
        if used:
            said = tr("Memory {used} used by the engine, {available} free", used=used, available=available)
        else:
            said = tr("{available} free", available=available)
        self._memory.setText(said)

    def show_database(self, name: str, url: str) -> None:
        """Which database the results are kept in."""
        self._database.setText(tr("Database {name}", name=name))
        self._database.setToolTip(plain_tip(url))
