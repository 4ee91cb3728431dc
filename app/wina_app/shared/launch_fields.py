"""Check boxes of one launch's options."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QWidget

from wina_app.style.translation import tr
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import explain_disabled, text_label
from wina_core.studies.launch import LaunchOptions
from wina_core.studies.tasks.task_folder import RISK, sandbox_rules

_SAMPLES = tr(
    "Stores each document's scores and answers for paired comparisons; results stored without them are measured again"
)
_CONSENT = tr(
    "Needed by tasks that run code of the model; holds for the next launch only, where it runs now. {risk}", risk=RISK
)
_NO_TASKS = tr("This study has no tasks with documents")


class LaunchFields(QWidget):
    """Two check boxes; the ticked consent shows its risk."""

    changed = Signal()
    """An option was ticked or unticked."""

    def __init__(self) -> None:
        super().__init__()
        self.samples = QCheckBox(tr("Log samples of every document"))
        self.consent = QCheckBox(tr("Run code that the model writes"))
        self.consent.setAccessibleDescription(_CONSENT)
        self.risk = text_label(RISK, "failed", wrap=True)
        self.risk.setToolTip(sandbox_rules())
        self.risk.hide()
        self.samples.toggled.connect(self.changed)
        self.consent.toggled.connect(self.risk.setVisible)
        column = vbox(self)
        for box in (self.samples, self.consent):
            box.setAccessibleName(box.text())
            column.addWidget(box)
        column.addWidget(self.risk)
        self.offer(True)

    def choice(self) -> LaunchOptions:
        """Return the ticked options."""
        return LaunchOptions(samples=self.samples.isChecked(), run_model_code=self.consent.isChecked())

    def withdraw_consent(self) -> None:
        """Untick the consent: it holds for one launch."""
        self.consent.setChecked(False)

    def offer(self, has_tasks: bool) -> None:
        """Show the options if the study has tasks."""
        for box, explanation in ((self.samples, _SAMPLES), (self.consent, _CONSENT)):
            explain_disabled(box, enabled=has_tasks, reason=_NO_TASKS, explanation=explanation)
