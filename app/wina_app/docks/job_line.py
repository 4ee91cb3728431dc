"""One line about the jobs: the current one with its progress and buttons, and how many wait."""

from PySide6.QtCore import QTimer, Signal, SignalInstance
from PySide6.QtWidgets import QProgressBar, QWidget

from wina_app.docks.job_painter import BUSY
from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.job_list import JobList
from wina_app.jobs.texts import brief_progress, progress_text, state_word
from wina_app.style.theme import GRID, HALF, notifier
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import ElidedLabel, push_button, text_label
from wina_app.widgets.plain_text import plain_tip

_STEPS = 1_000
_SECOND_MS = 1_000
_BAR = 10 * GRID


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
        self.bar.setAccessibleName(tr("Progress of the job"))
        self.bar.setFixedWidth(_BAR)
        self.amount = text_label("", "muted")
        self.pause = push_button("", self._pause_or_resume, role="link")
        self.cancel = push_button(tr("Cancel"), lambda: self._emit(self.cancel_requested), role="link")
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
        self.title.setText(entry.title if entry else tr("No jobs yet."))
        waiting = sum(job.waiting for job in ordered[1:])
        self._waiting.setVisible(waiting > 0)
        self._waiting.setText(tr("and {count} waiting", count=waiting))
        self.amount.setText(brief_progress(entry) if entry else "")
        self.amount.setToolTip(plain_tip(progress_text(entry)) if entry else "")
        serves = entry is not None and entry.serves
        self._show_bar(entry if active and not serves else None)
        self.pause.setVisible(entry is not None and active and not entry.is_elsewhere)
        self.cancel.setVisible(active)
        for button in (self.pause, self.cancel):
            button.setEnabled(entry is not None and entry.phase != "cancelling")
        word = tr("Resume") if entry is not None and entry.is_paused else tr("Pause")
        self.pause.setText(word)
        title = entry.title if entry else ""
        self.pause.setAccessibleName(f"{word}: {title}")
        end = tr("Stop") if serves else tr("Cancel")
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
