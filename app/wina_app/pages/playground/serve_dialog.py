"""Dialog that starts a server."""

from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFileDialog, QLineEdit, QWidget

from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import labelled, push_button, text_label
from wina_app.widgets.fields import whole_number
from wina_core.jobs.hosted import ServeJob

_HIGHEST_PORT = 65_535
_WHAT = tr(
    "OpenAI's clients then reach the model at an address of this machine. The server takes memory for a copy of the "
    "model, and nothing else of the window uses it."
)
_MODEL = tr(
    "A sparse model, a model folder, or demo. As it is in the folder; export the open configuration to serve it gated."
)
_KEY = tr("Optional: a file with one line of at least 16 characters, which clients must send.")


class ServeDialog(QDialog):
    """Folder, port and key of a server."""

    def __init__(self, job: ServeJob, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Serve a model"))
        self.setMinimumWidth(GRID * 72)
        self.folder, self.key_file = QLineEdit(job.folder), QLineEdit(job.key_file)
        self.port = whole_number(1, _HIGHEST_PORT, job.port)
        self.port.setGroupSeparatorShown(False)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.start = buttons.addButton(tr("Serve"), QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        choose_folder = push_button(tr("Folder…"), self._choose_folder, name=tr("Choose the model folder"))
        choose_key = push_button(tr("File…"), self._choose_key, name=tr("Choose the file of the API key"))
        rows = []
        for title, edit, button, hint in (
            (tr("Model folder"), self.folder, choose_folder, _MODEL),
            (tr("File of the API key"), self.key_file, choose_key, _KEY),
        ):
            field = QWidget()
            hbox(field, (edit, 1), button)
            edit.setAccessibleName(title)
            rows.append(labelled(title, field, hint=hint))
        vbox(
            self,
            text_label(_WHAT, wrap=True),
            rows[0],
            labelled(tr("Port"), self.port),
            rows[1],
            buttons,
            margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID),
            spacing=GRID,
        )
        self.folder.textChanged.connect(self._check)
        self._check()

    def job(self) -> ServeJob:
        """Return what was entered."""
        key_file = self.key_file.text().strip()
        return ServeJob(folder=self.folder.text().strip(), port=self.port.value(), key_file=key_file)

    def _check(self) -> None:
        self.start.setEnabled(bool(self.folder.text().strip()))

    def _choose_folder(self) -> None:
        if chosen := QFileDialog.getExistingDirectory(self, tr("Open model folder"), self.folder.text()):
            self.folder.setText(chosen)

    def _choose_key(self) -> None:
        if chosen := QFileDialog.getOpenFileName(self, tr("File of the API key"), self.key_file.text())[0]:
            self.key_file.setText(chosen)
