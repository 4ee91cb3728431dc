"""Strip with one job of a page: its title, progress, and the buttons to pause and to cancel it."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QProgressBar

from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.texts import page_text
from wina_app.style.theme import GRID
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import ElidedLabel, push_button, text_label


class JobStrip(QFrame):
    """One line about a job, hidden without one."""

    pause_requested = Signal()
    resume_requested = Signal()
    cancel_requested = Signal()

    def __init__(self, name: str, cancel: str) -> None:
        """Name the bar for screen readers, and the button that cancels."""
        super().__init__()
        self.setProperty("role", "notice")
        self.title = text_label("", "section")
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedWidth(GRID * 20)
        self.bar.setAccessibleName(name)
        self.text = ElidedLabel("muted")
        self.hold = push_button("Pause", self._hold)
        self.cancel = push_button(cancel, self.cancel_requested.emit)
        self._paused = False
        margins = (GRID * 2, GRID, GRID * 2, GRID)
        hbox(self, self.title, self.bar, (self.text, 1), self.hold, self.cancel, margins=margins, spacing=GRID * 2)
        self.hide()

    def show_job(self, entry: JobEntry | None, behind: str = "") -> None:
        """Show a job, and the title of the one that it waits for; None hides the strip."""
        if entry is None:
            self.hide()
            return
        self.title.setText(entry.title)
        self.text.setText(page_text(entry, behind))
        stands = entry.phase in ("queued", "paused")
        moving = not stands and entry.fraction in (None, 0.0, 1.0)  # one step for the library, of unknown length
        self.bar.setRange(0, 0 if moving else 1000)
        self.bar.setValue(round(1000 * (entry.fraction or 0.0)))
        self._paused = entry.is_paused
        text = "Resume" if self._paused else "Pause"
        self.hold.setText(text)
        self.hold.setAccessibleName(f"{text}: {entry.title}")
        for button in (self.hold, self.cancel):
            button.setEnabled(entry.phase != "cancelling")
        self.show()

    def _hold(self) -> None:
        (self.resume_requested if self._paused else self.pause_requested).emit()
