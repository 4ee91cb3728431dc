"""Field for the data of tasks and texts: the Hugging Face Hub or a folder."""

from collections.abc import Sequence

from PySide6.QtWidgets import QFileDialog, QLineEdit, QWidget

from wina_app.style.number_format import listed
from wina_app.style.theme import HALF
from wina_app.style.translation import tr
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import beside, explain_disabled, push_button, text_label

_HUB = tr("Hugging Face Hub (default)")
_NAME = tr("Data of the tasks")
_HELP = tr(
    "A folder with a subfolder for each task, named like the task or its prefix, with a file for each split, such as "
    "validation.jsonl or test.parquet; they replace the Hub's data"
)
_FOLDER = tr("Data folder")


class DataFolder(QWidget):
    """Path of a data folder; empty for the Hub, which has the data of tasks only."""

    def __init__(self) -> None:
        super().__init__()
        self.edit = QLineEdit()
        self.edit.setClearButtonEnabled(True)
        self.choose = push_button(tr("Folder…"), self._choose, name=tr("Choose the data folder"))
        self._label = text_label("")
        self._label.setBuddy(self.edit)
        vbox(self, self._label, self.edit, beside(self.choose), spacing=HALF)
        self.show_texts(())

    def show_texts(self, data_sets: Sequence[str], default_folder: str = "") -> None:
        """Name the data sets whose rows are read as texts, and the folder that applies while the field is empty."""
        name = _FOLDER if data_sets else _NAME
        self._label.setText(name)
        self.edit.setAccessibleName(name)
        default, self._help = _HUB, _HELP
        if data_sets:
            names = listed(data_sets)
            default = tr("Folder with {data_sets}", data_sets=names)
            self._help = tr(
                "A folder whose subfolders {data_sets} have a file such as test.jsonl, which texts are read from. "
                "Subfolders named like a task replace the Hub's data of that task. All studies remember the folder",
                data_sets=names,
            )
        self.edit.setPlaceholderText(
            tr("From the file: {folder}", folder=default_folder) if default_folder else default
        )
        self.offer()

    def offer(self, reason: str = "") -> None:
        """Enable the field, unless there is a reason against it."""
        for control in (self.edit, self.choose):
            explain_disabled(control, enabled=not reason, reason=reason, explanation=self._help)

    def _choose(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, tr("Data folder"))
        if folder:
            self.edit.setText(folder)
            self.edit.editingFinished.emit()
