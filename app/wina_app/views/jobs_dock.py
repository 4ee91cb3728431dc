"""The Jobs dock: every job with its state, progress and remaining time, and buttons that pause and cancel it."""

import time

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QPushButton, QScrollArea, QVBoxLayout, QWidget

from wina_app.icons import icon
from wina_app.models.job_list import JobEntry, JobList
from wina_app.quantities import counted, duration, size
from wina_app.theme import GRID, HALF, font, notifier, state_colour
from wina_app.views.controls import ElidedLabel, beside, close_together, text_label

EMPTY = "No jobs yet. Loading, rotating, calibrating and evaluating show here, with progress and remaining time."
CANCELLING = "The job stops after its batch; if it does not within 10 s, the engine is restarted"
PAUSE = "Holds the job after its batch, its model kept in memory; the jobs behind it wait"
PAUSE_QUEUED = "Keeps the job from beginning; the jobs behind it go first"
PAUSING = "The job is held once its batch is done; Resume lets it go on at once"
RESUME = "Lets the job go on where it was held"
_WORDS = {
    "queued": "Queued",
    "running": "Running",
    "pausing": "Pausing",
    "paused": "Paused",
    "cancelling": "Cancelling",
    "done": "Done",
    "failed": "Failed",
    "cancelled": "Cancelled",
}
_STATE_WIDTH = GRID * 14
_BUSY = ("running", "pausing", "cancelling")
_DRAWN = {"cancelling": "running", "pausing": "running"}


def progress_text(entry: JobEntry) -> str:
    """How far a job is, in words and units."""
    parts = []
    if entry.active and entry.unit:
        parts.append(_amount(entry))
    if entry.eta_seconds is not None and entry.state == "running":
        parts.append(f"{duration(entry.eta_seconds)} left")
    if entry.ended is not None:
        parts.append(f"took {duration(entry.seconds)}")
        parts.append(f"ended {time.strftime('%H:%M:%S', time.localtime(entry.ended))}")
    if entry.units_stored and entry.ended is not None:
        parts.append(f"{counted(entry.units_stored, 'result')} stored")
    if entry.runs_failed:
        parts.append(f"{counted(entry.runs_failed, 'run')} failed")
    return "  ·  ".join(parts)


def _amount(entry: JobEntry) -> str:
    if entry.unit == "bytes":
        return size(entry.done) if entry.total is None else f"{size(entry.done)} of {size(entry.total)}"
    done = f"{entry.done:,.1f}" if entry.done % 1 else f"{entry.done:,.0f}"
    return f"{done} {entry.unit}" if entry.total is None else f"{done} of {entry.total:,.0f} {entry.unit}"


class JobRow(QWidget):
    """One job."""

    pause_requested = Signal(str)
    resume_requested = Signal(str)
    cancel_requested = Signal(str)

    def __init__(self, entry: JobEntry) -> None:
        super().__init__()
        self._entry = entry
        self._icon = QLabel()
        self._state = text_label("")
        self._state.setFixedWidth(_STATE_WIDTH - 3 * GRID)
        self._title = ElidedLabel("section")
        self._metric = ElidedLabel("muted")
        self._amount = text_label("", "muted")
        self._amount.setFont(font("small", tabular=True))
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setRange(0, 1000)
        self._amount.setMinimumWidth(GRID * 20)
        self._amount.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.pause = QPushButton()
        self.pause.clicked.connect(self._toggle)
        self.cancel = QPushButton("Cancel")
        self.cancel.clicked.connect(lambda: self.cancel_requested.emit(entry.id))
        row = QHBoxLayout(self)
        row.setContentsMargins(GRID * 2, HALF, GRID * 2, HALF)
        row.setSpacing(GRID)
        row.addWidget(self._icon)
        row.addWidget(self._state)
        row.addLayout(close_together(self._title, self._metric), 1)
        row.addLayout(close_together(self._amount, self.bar))
        row.addWidget(self.pause)
        row.addWidget(self.cancel)
        self.show_entry()
        notifier().changed.connect(self.show_entry)

    def show_entry(self) -> None:
        """Show the job as it is now."""
        entry = self._entry
        word = _WORDS[entry.state]
        self._title.setText(entry.title)
        drawing = _DRAWN.get(entry.state, entry.state)
        self._icon.setPixmap(icon(drawing, state_colour(drawing).name()).pixmap(QSize(16, 16)))
        self._state.setText(word)
        remark = entry.error or (entry.metric if entry.active else "")
        self._show_remark(remark, failed=bool(entry.error))
        self._amount.setText(progress_text(entry))
        fraction = entry.fraction
        if entry.state in _BUSY and fraction is None:
            self.bar.setRange(0, 0)
        else:
            self.bar.setRange(0, 1000)
            self.bar.setValue(round(1000 * (fraction or 0.0)))
        self.bar.setVisible(entry.active)
        self._show_pause()
        self.cancel.setVisible(entry.active)
        self.cancel.setEnabled(entry.state != "cancelling")
        self.cancel.setToolTip(CANCELLING if entry.state == "cancelling" else "")
        self.bar.setAccessibleName(f"Progress of {entry.title}")
        self.cancel.setAccessibleName(f"Cancel {entry.title}")
        self.setAccessibleName(f"{entry.title}: {word}, {progress_text(entry)}")

    def _show_pause(self) -> None:
        entry = self._entry
        word = "Resume" if self._is_paused else "Pause"
        tips = {"queued": PAUSE_QUEUED, "pausing": PAUSING, "paused": RESUME}
        self.pause.setText(word)
        self.pause.setToolTip(tips.get(entry.state, PAUSE))
        self.pause.setAccessibleName(f"{word} {entry.title}")
        self.pause.setVisible(entry.active)
        self.pause.setEnabled(entry.state != "cancelling")

    @property
    def _is_paused(self) -> bool:
        return self._entry.state in ("pausing", "paused")

    def _toggle(self) -> None:
        (self.resume_requested if self._is_paused else self.pause_requested).emit(self._entry.id)

    def _show_remark(self, text: str, *, failed: bool) -> None:
        role = "failed" if failed else "muted"
        if self._metric.property("role") != role:
            self._metric.setProperty("role", role)
            self._metric.style().polish(self._metric)
        self._metric.setText(text)
        self._metric.setVisible(bool(text))


class JobsView(QWidget):
    """All jobs: those to come in the order in which they run, then the ended ones, the latest at the top."""

    pause_requested = Signal(str)
    resume_requested = Signal(str)
    cancel_requested = Signal(str)

    def __init__(self, jobs: JobList) -> None:
        super().__init__()
        self._jobs = jobs
        self.rows: dict[str, JobRow] = {}
        self._empty = text_label(EMPTY, "muted", wrap=True)
        self._empty.setContentsMargins(GRID * 2, GRID, GRID * 2, GRID)
        self._clear = QPushButton("Clear ended jobs")
        self._clear.setProperty("role", "link")
        self._clear.setAccessibleName("Clear ended jobs")
        self._clear.clicked.connect(jobs.clear_ended)
        content = QWidget()
        content.setProperty("role", "surface")
        content.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._column = QVBoxLayout(content)
        self._column.setContentsMargins(0, HALF, 0, HALF)
        self._column.setSpacing(0)
        self._column.addWidget(self._empty)
        foot = beside(self._clear)
        foot.setContentsMargins(GRID + HALF, 0, GRID, 0)
        self._column.addLayout(foot)
        self._column.addStretch(1)
        area = QScrollArea()
        area.setWidget(content)
        area.setWidgetResizable(True)
        area.setAccessibleName("Jobs")
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(area, 1)
        jobs.added.connect(self._add)
        jobs.changed.connect(self._change)
        jobs.ended.connect(self._arrange)
        jobs.removed.connect(self._remove)
        self._update()

    def _add(self, job_id: str) -> None:
        row = JobRow(self._jobs[job_id])
        row.pause_requested.connect(self.pause_requested)
        row.resume_requested.connect(self.resume_requested)
        row.cancel_requested.connect(self.cancel_requested)
        self.rows[job_id] = row
        self._arrange()
        self._update()

    def _arrange(self) -> None:
        ended = sorted((entry for entry in self._jobs if not entry.active), key=lambda entry: -(entry.ended or 0.0))
        for place, entry in enumerate([*self._jobs.active, *ended]):
            if self._column.indexOf(self.rows[entry.id]) != place:
                self._column.insertWidget(place, self.rows[entry.id])

    def _change(self, job_id: str) -> None:
        self.rows[job_id].show_entry()
        self._update()

    def _remove(self, job_id: str) -> None:
        self.rows.pop(job_id).deleteLater()
        self._update()

    def _update(self) -> None:
        self._empty.setVisible(not self.rows)
        self._clear.setVisible(any(not entry.active for entry in self._jobs))

    def sizeHint(self) -> QSize:
        """About three jobs."""
        return QSize(GRID * 80, GRID * 18)
