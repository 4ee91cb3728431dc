"""Field for the tasks' data: the Hugging Face Hub or a folder."""

from PySide6.QtWidgets import QFileDialog, QLineEdit, QWidget

from wina_app.style.theme import HALF
from wina_app.style.translation import tr
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import beside, explain_disabled, push_button, text_label

HUB = tr("Hugging Face Hub (default)")
_NAME = tr("Data of the tasks")
_HELP = tr(
    "A folder with a subfolder for each task, named like the task or its prefix, with a file for each split, such as "
    "validation.jsonl or test.parquet; they replace the Hub's data"
)


class DataFolder(QWidget):
    """Path of a data folder; empty for the Hub."""

    def __init__(self) -> None:
        super().__init__()
        self.edit = QLineEdit()
        self.edit.setPlaceholderText(HUB)
        self.edit.setClearButtonEnabled(True)
        self.edit.setAccessibleName(_NAME)
        self.choose = push_button(tr("Folder…"), self._choose, name=tr("Choose the data folder"))
        label = text_label(_NAME)
        label.setBuddy(self.edit)
        vbox(self, label, self.edit, beside(self.choose), spacing=HALF)
        self.offer()

    def offer(self, reason: str = "") -> None:
        """Enable the field, unless there is a reason against it."""
        for control in (self.edit, self.choose):
            explain_disabled(control, enabled=not reason, reason=reason, explanation=_HELP)

    def _choose(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, tr("Folder with the tasks' data"))
        if folder:
            self.edit.setText(folder)
            self.edit.editingFinished.emit()
