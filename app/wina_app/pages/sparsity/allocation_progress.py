"""Strip with the allocator's progress, then its outcome."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QProgressBar, QWidget

from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.texts import waiting_text
from wina_app.style.number_format import duration
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import ElidedLabel, push_button, text_label
from wina_app.widgets.plain_text import plain_tip


class AllocationStrip(QWidget):
    """Bar, percentage, remaining time, step and Cancel; hidden if empty."""

    cancel_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setFixedWidth(GRID * 20)
        self.bar.setAccessibleName(tr("Progress of the allocator"))
        self.amount = text_label("")
        self.outcome = ElidedLabel("muted")
        self.outcome.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.cancel = push_button(
            tr("Cancel"),
            self.cancel_requested.emit,
            name=tr("Cancel the allocator"),
            tip=tr("Stop at the next batch; results so far are kept"),
        )
        hbox(self, self.bar, self.amount, (self.outcome, 1), self.cancel)
        self._outcome_texts = ("", "")
        self.show_progress(None)

    def show_progress(self, entry: JobEntry | None) -> None:
        """Show a running job, or with None the last outcome."""
        for widget in (self.bar, self.amount, self.cancel):
            widget.setVisible(entry is not None)
        if entry is None:
            text, details = self._outcome_texts
            self.outcome.setText(text)
            self.outcome.setToolTip(plain_tip("\n".join(filter(None, (text, details)))))
            self.setVisible(bool(text))
            return
        fraction = entry.fraction
        self.bar.setRange(0, 0 if fraction is None and entry.phase != "queued" else 1000)
        self.bar.setValue(round(1000 * (fraction or 0.0)))
        self.amount.setText(_amount(entry))
        self.outcome.setText("  \N{MIDDLE DOT}  ".join(filter(None, (entry.title, entry.metric))))
        self.cancel.setEnabled(entry.phase != "cancelling")
        self.show()

    def show_outcome(self, text: str, details: str) -> None:
        """Show an outcome; empty for none."""
        self._outcome_texts = text, details
        if self.bar.isHidden():
            self.show_progress(None)


def _amount(entry: JobEntry) -> str:
    if waiting := waiting_text(entry):
        return waiting
    share = tr("preparing") if entry.fraction is None else f"{100 * entry.fraction:.0f} %"
    left = "" if entry.remaining_seconds is None else tr("{time} left", time=duration(entry.remaining_seconds))
    return "  \N{MIDDLE DOT}  ".join(filter(None, (share, left)))
