"""Status line of a server with its buttons, and the dialog that starts one."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QDialog, QDialogButtonBox, QFileDialog, QLineEdit, QWidget

from wina_app.style.theme import GRID
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import explain_disabled, labelled, push_button, text_label
from wina_app.widgets.fields import whole_number
from wina_core.jobs.hosted import ServeJob

_HIGHEST_PORT = 65_535
_WHAT = (
    "OpenAI's clients then reach the model at an address of this machine. The server takes memory for a copy of the "
    "model, and nothing else of the window uses it."
)
_MODEL = (
    "A sparse model, a model folder, or demo. As it is in the folder; export the open configuration to serve it gated."
)
_KEY = "Optional: a file with one line of at least 16 characters, which clients must send."


class ServeDialog(QDialog):
    """Folder, port and key of a server."""

    def __init__(self, job: ServeJob, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Serve a model")
        self.setMinimumWidth(GRID * 72)
        self.folder, self.key_file = QLineEdit(job.folder), QLineEdit(job.key_file)
        self.port = whole_number(1, _HIGHEST_PORT, job.port)
        self.port.setGroupSeparatorShown(False)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.start = buttons.addButton("Serve", QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        choose_folder = push_button("Folder…", self._choose_folder, name="Choose the model folder")
        choose_key = push_button("File…", self._choose_key, name="Choose the file of the API key")
        rows = []
        for title, edit, button, hint in (
            ("Model folder", self.folder, choose_folder, _MODEL),
            ("File of the API key", self.key_file, choose_key, _KEY),
        ):
            field = QWidget()
            hbox(field, (edit, 1), button)
            edit.setAccessibleName(title)
            rows.append(labelled(title, field, hint=hint))
        vbox(
            self,
            text_label(_WHAT, wrap=True),
            rows[0],
            labelled("Port", self.port),
            rows[1],
            buttons,
            margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID),
            spacing=GRID,
        )
        self.folder.textChanged.connect(self._check)
        self._check()

    def job(self) -> ServeJob:
        key_file = self.key_file.text().strip()
        return ServeJob(folder=self.folder.text().strip(), port=self.port.value(), key_file=key_file)

    def _check(self) -> None:
        self.start.setEnabled(bool(self.folder.text().strip()))

    def _choose_folder(self) -> None:
        if chosen := QFileDialog.getExistingDirectory(self, "Open model folder", self.folder.text()):
            self.folder.setText(chosen)

    def _choose_key(self) -> None:
        if chosen := QFileDialog.getOpenFileName(self, "File of the API key", self.key_file.text())[0]:
            self.key_file.setText(chosen)


_EXPLANATION = "An address of this machine for OpenAI's clients"
_NO_SERVER = "No server accepts requests yet"
_SENDS = "Generate sends the prompt to the server; its completion is not stored and not compared"


class ServerPanel(QWidget):
    """The server of the Playground."""

    serve_requested = Signal()
    chosen = Signal(object)
    """ServeJob of the dialog."""
    stop_requested = Signal()
    log_requested = Signal()
    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.serve = push_button("Serve…", self.serve_requested.emit, name="Serve a model", tip=_EXPLANATION)
        self.stop = push_button("Stop", self.stop_requested.emit, name="Stop the server")
        self.log = push_button("Log", self.log_requested.emit, name="Show the server's log", role="link")
        self.status = text_label("", "muted", wrap=True)
        self.status.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.send = QCheckBox("Send prompts to the server")
        self.send.toggled.connect(self.changed)
        heading = hbox(None, (text_label("Server", "section"), 1), self.log, self.stop, self.serve)
        vbox(self, heading, self.status, self.send)
        self.show_server("", running=False, ready=False)

    @property
    def sends(self) -> bool:
        return self.send.isEnabled() and self.send.isChecked()

    def show_server(self, text: str, *, running: bool, ready: bool) -> None:
        """Show the status line, and the buttons that are of use."""
        self.status.setText(text)
        self.serve.setVisible(not running)
        self.stop.setVisible(running)
        self.log.setVisible(running)
        before = self.sends
        explain_disabled(self.send, enabled=ready, reason=_NO_SERVER, explanation=_SENDS)
        if self.sends != before:
            self.changed.emit()

    def choose_server(self) -> None:
        self.send.setChecked(True)

    def ask(self, job: ServeJob) -> None:
        dialog = ServeDialog(job, self)
        dialog.accepted.connect(lambda: self.chosen.emit(dialog.job()))
        dialog.finished.connect(dialog.deleteLater)  # as a child of the panel it would outlive its use
        dialog.open()
