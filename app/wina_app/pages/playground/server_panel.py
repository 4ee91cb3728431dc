"""Status line of a server with its buttons, and the choice to send prompts to it."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QWidget

from wina_app.pages.playground.serve_dialog import ServeDialog
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import explain_disabled, push_button, text_label
from wina_core.jobs.hosted import ServeJob

_EXPLANATION = tr("An address of this machine for OpenAI's clients")
_NO_SERVER = tr("No server accepts requests yet")
_SENDS = tr("Generate sends the prompt to the server; its completion is not stored and not compared")


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
        self.serve = push_button(tr("Serve…"), self.serve_requested.emit, name=tr("Serve a model"), tip=_EXPLANATION)
        self.stop = push_button(tr("Stop"), self.stop_requested.emit, name=tr("Stop the server"))
        self.log = push_button(tr("Log"), self.log_requested.emit, name=tr("Show the server's log"), role="link")
        self.status = text_label("", "muted", wrap=True)
        self.status.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.send = QCheckBox(tr("Send prompts to the server"))
        self.send.toggled.connect(self.changed)
        heading = hbox(None, (text_label(tr("Server"), "section"), 1), self.log, self.stop, self.serve)
        vbox(self, heading, self.status, self.send)
        self.show_server("", running=False, ready=False)

    @property
    def sends(self) -> bool:
        """Return whether prompts go to the server."""
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
        """Send prompts to the server."""
        self.send.setChecked(True)

    def ask(self, job: ServeJob) -> None:
        """Open the dialog."""
        dialog = ServeDialog(job, self)
        dialog.accepted.connect(lambda: self.chosen.emit(dialog.job()))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()
