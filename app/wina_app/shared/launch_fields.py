"""Fields of one launch: the folder of its data, and check boxes of its options."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QFileDialog, QLineEdit, QWidget

from wina_app.style.number_format import listed
from wina_app.style.theme import HALF
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import beside, explain_disabled, push_button, text_label
from wina_core.studies.launch import LaunchOptions
from wina_core.studies.tasks.task_folder import RISK, sandbox_rules

_HUB = "Hugging Face Hub (default)"
_TASK_DATA = "Data of the tasks"
_HELP = (
    "A folder with a subfolder for each task, named like the task or its prefix, with a file for each split, such as "
    "validation.jsonl or test.parquet; they replace the Hub's data"
)
_FOLDER = "Data folder"

_SAMPLES = (
    "Stores each document's scores and answers for paired comparisons; results stored without them are measured again"
)
_CONSENT = f"Needed by tasks that run code of the model; holds for the next launch only, where it runs now. {RISK}"
_NO_TASKS = "This study has no tasks with documents"


class DataFolder(QWidget):
    """Path of a data folder; empty for the Hub, which has the data of tasks only."""

    def __init__(self) -> None:
        super().__init__()
        self.edit = QLineEdit()
        self.edit.setClearButtonEnabled(True)
        self.choose = push_button("Folder…", self._choose, name="Choose the data folder")
        self._label = text_label("")
        self._label.setBuddy(self.edit)
        vbox(self, self._label, self.edit, beside(self.choose), spacing=HALF)
        self.show_texts(())

    def show_texts(self, data_sets: Sequence[str], default_folder: str = "") -> None:
        """Name the data sets whose rows are read as texts, and the folder that applies while the field is empty."""
        name = _FOLDER if data_sets else _TASK_DATA
        self._label.setText(name)
        self.edit.setAccessibleName(name)
        default, self._help = _HUB, _HELP
        if data_sets:
            names = listed(data_sets)
            default = f"Folder with {names}"
            self._help = (
                f"A folder whose subfolders {names} have a file such as test.jsonl, which texts are read from. "
                "Subfolders named like a task replace the Hub's data of that task. All studies remember the folder"
            )
        self.edit.setPlaceholderText(f"From the file: {default_folder}" if default_folder else default)
        self.offer()

    def offer(self, reason: str = "") -> None:
        for control in (self.edit, self.choose):
            explain_disabled(control, enabled=not reason, reason=reason, explanation=self._help)

    def _choose(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Data folder")
        if folder:
            self.edit.setText(folder)
            self.edit.editingFinished.emit()


class LaunchFields(QWidget):
    """Two check boxes; the ticked consent shows its risk."""

    changed = Signal()
    """An option was ticked or unticked."""

    def __init__(self) -> None:
        super().__init__()
        self.samples = QCheckBox("Log samples of every document")
        self.consent = QCheckBox("Run code that the model writes")
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
        return LaunchOptions(samples=self.samples.isChecked(), run_model_code=self.consent.isChecked())

    def withdraw_consent(self) -> None:
        self.consent.setChecked(False)  # it holds for one launch

    def offer(self, has_tasks: bool) -> None:
        for box, explanation in ((self.samples, _SAMPLES), (self.consent, _CONSENT)):
            explain_disabled(box, enabled=has_tasks, reason=_NO_TASKS, explanation=explanation)
