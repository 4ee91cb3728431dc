"""The server of the Playground: its status line with buttons, the dialog that starts it, and its job."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFileDialog, QLineEdit, QWidget

from wina_app.services.model_server import ModelServer, ServerState
from wina_app.services.workbench import Workbench
from wina_app.style.number_format import plural
from wina_app.style.theme import GRID
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import labelled, push_button, text_label
from wina_app.widgets.fields import whole_number
from wina_core.errors import WinaError
from wina_core.files.user_file import read_key
from wina_core.jobs import Done, Failed, Progress, Started
from wina_core.jobs.hosted import ServeJob

_PORT = 8000
_HIGHEST_PORT = 65_535
_WHAT = (
    "OpenAI's clients then reach the model at an address of this machine. The server takes memory for a copy of the "
    "model, and nothing else of the window uses it."
)
_MODEL = (
    "A sparse model, a model folder, or demo. As it is in the folder; export the open configuration to serve it gated."
)
_KEY = "Optional: a file with one line of at least 16 characters, which clients must send."
_EXPLANATION = "An address of this machine for OpenAI's clients"


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
        rows = []
        for title, edit, choose, hint in (
            ("Model folder", self.folder, self._choose_folder, _MODEL),
            ("File of the API key", self.key_file, self._choose_key, _KEY),
        ):
            field = QWidget()
            hbox(field, (edit, 1), push_button("Browse…", choose, name=f"Browse for: {title}"))
            edit.setAccessibleName(title)
            rows.append(labelled(title, field, hint=hint))
        margins = (2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        vbox(
            self, text_label(_WHAT, wrap=True), rows[0], labelled("Port", self.port), rows[1], buttons, margins=margins
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


class ServerPanel(QWidget):
    """The server of one model, which is a job of the window while it runs."""

    def __init__(
        self,
        workbench: Workbench,
        show_log: Callable[[str], object] = lambda _: None,
        show_server: Callable[[str, str], object] = lambda *_: None,
        process: ModelServer | None = None,
    ) -> None:
        """`show_log` shows the log of a job, `show_server` a server's text and tooltip in the status line."""
        super().__init__()
        self._workbench, self._show_server = workbench, show_server
        self.process = process or ModelServer(self)
        self._job = ServeJob(folder="", port=_PORT)
        """The last one."""
        self._state, self.job_id = ServerState(), ""
        self._serve = push_button("Serve…", self.open, name="Serve a model", tip=_EXPLANATION)
        self._stop = push_button("Stop", self.stop, name="Stop the server")
        self._log = push_button("Log", lambda: show_log(self.job_id), name="Show the server's log", role="link")
        self.status = text_label("", "muted", wrap=True)
        self.status.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        vbox(self, hbox(None, (text_label("Server", "section"), 1), self._log, self._stop, self._serve), self.status)
        self.process.changed.connect(self._show)
        self.process.failed.connect(self._on_failed)
        workbench.stopped.connect(self.process.leave)
        self._show()

    def open(self) -> None:
        """Ask which model to serve, the open one first."""
        source = self._workbench.workspace.source
        folder = self._job.folder if source is None else source.location
        dialog = ServeDialog(self._job.model_copy(update={"folder": folder}), self)
        dialog.accepted.connect(lambda: self.start(dialog.job()))
        dialog.finished.connect(dialog.deleteLater)  # as a child of the panel it would outlive its use
        dialog.open()

    def start(self, job: ServeJob) -> None:
        """Start the server, unless one runs; `ModelServer.failed` says why it cannot."""
        if self.process.state.folder:
            return
        self._job = job
        try:
            read_key(Path(job.key_file).expanduser() if job.key_file else None)
        except WinaError as error:
            self.process.failed.emit(str(error))
            return
        title = f"Serve: {Path(job.folder).name or job.folder}"
        self.job_id = self._workbench.host(job, title, self.process.stop)
        # No engine runs the job, so that nobody else sends its events.
        self._workbench.jobs.apply(Started(job_id=self.job_id))
        self.process.start(job, self.job_id)

    def stop(self) -> None:
        if self.process.state.folder:
            self._workbench.cancel(self.job_id)

    def _show(self) -> None:
        before, state = self._state, self.process.state
        self._state, text, running = state, _state_text(state), bool(state.folder)
        self.status.setText(text)
        self._serve.setVisible(not running)
        self._stop.setVisible(running)
        self._log.setVisible(running)
        self._show_server(f"Serving {Path(state.folder).name}" if running else "", text)
        if running:
            self._report(text)
        elif before.folder:
            self._report(_counts_text(before))
            self._workbench.jobs.apply(Done(job_id=self.job_id))

    def _report(self, text: str) -> None:
        self._workbench.jobs.apply(Progress(job_id=self.job_id, done=0, total=None, unit="", metric=text))

    def _on_failed(self, reason: str) -> None:
        if self.process.state.folder:
            self._workbench.jobs.apply(Failed(job_id=self.job_id, error=reason))


def _state_text(state: ServerState) -> str:
    if not state.folder:
        return "No server runs."
    if state.stopping:
        return "Stopping…"
    if state.listening is None:
        return f"Loading {state.folder}…"
    return f"{state.listening.address}, {_counts_text(state)}"


def _counts_text(state: ServerState) -> str:
    """Describe what a server has answered."""
    counts = [plural(state.requests, "requests", "request")]
    if state.refused:
        counts.append(f"{state.refused} refused")
    if state.rate is not None:
        counts.append(f"{state.rate:,.1f} tokens/s")
    return ", ".join(counts)
