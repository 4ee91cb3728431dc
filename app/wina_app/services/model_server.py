"""`wina serve` in a process of its own, with its log and its numbers."""

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, QProcess, QTimer, Signal

from wina_app.services.side_process import environment_with
from wina_core.files.own_command import own_command
from wina_core.jobs.hosted import SERVER_EVENTS, Listening, RequestFinished, ServeJob

_KILL_MS = 20_000
"""Time until a server that was requested to end is killed; it needs half of it to send what its answers have."""
_LEAVING_MS = 2_000
"""The same when the window closes."""
_log = logging.getLogger("wina_app.server")


@dataclass(frozen=True)
class ServerState:
    """A server as far as it is known."""

    folder: str = ""
    """Its model; empty while none runs."""
    listening: Listening | None = None
    """None until it accepts requests."""
    stopping: bool = False
    requests: int = 0
    refused: int = 0
    rate: float | None = None
    """Tokens per second of the last answer."""

    def after(self, event: RequestFinished) -> "ServerState":
        refused = self.refused + (event.status >= 400 and not event.tokens)
        return replace(self, requests=self.requests + 1, refused=refused, rate=event.rate or self.rate)


class ModelServer(QObject):
    """The server of one model; `changed` follows each change of `state`."""

    changed = Signal()
    failed = Signal(str)
    """One sentence on why it ends; `state` is still the last one."""

    def __init__(self, parent: QObject | None = None, command: Sequence[str] = own_command("wina_core.cli")) -> None:
        """Take the command that runs `wina`."""
        super().__init__(parent)
        self._command = tuple(command)
        self.state = ServerState()
        self._last = self._job_id = ""
        self._process = process = QProcess(self)
        process.setProcessEnvironment(environment_with({}))
        process.readyReadStandardOutput.connect(self._on_events)
        process.readyReadStandardError.connect(self._on_lines)
        process.finished.connect(self._on_finished)
        process.errorOccurred.connect(self._on_error)
        self._killing = QTimer(self, singleShot=True, interval=_KILL_MS)
        self._killing.timeout.connect(process.kill)

    def start(self, job: ServeJob, job_id: str) -> None:
        """Start to serve, unless a server runs; its lines go into the log of the job with this id."""
        if self.state.folder:
            return
        folder, key = job.folder, ("--api-key-file", job.key_file) if job.key_file else ()
        words = ["serve", folder, "--port", str(job.port), "--json", *key]
        self._last, self._job_id = "", job_id
        self._set(ServerState(folder=folder))
        self._write(logging.INFO, f"starting: wina {' '.join(words)}")
        self._process.start(self._command[0], [*self._command[1:], *words])

    def stop(self) -> None:
        """Ask the server to end; it ends the answers in flight."""
        if self.state.folder and not self.state.stopping:
            self._set(replace(self.state, stopping=True))
            self._end()
            self._killing.start()

    def leave(self) -> None:
        """End the server with the window."""
        if self.state.folder:
            self._process.blockSignals(True)
            self._end()
            if not self._process.waitForFinished(_LEAVING_MS):
                self._process.kill()
                self._process.waitForFinished(_LEAVING_MS)

    def _end(self) -> None:
        if sys.platform == "win32":  # which has no signal for a program without a window
            self._process.kill()
        else:
            self._process.terminate()

    def _on_events(self) -> None:
        while self._process.canReadLine():
            self._on_event(bytes(self._process.readLine().data()))

    def _on_event(self, line: bytes) -> None:
        try:
            event = SERVER_EVENTS.validate_json(line)
        except ValueError:  # a library's output
            self._write(logging.DEBUG, line.decode(errors="replace").rstrip())
            return
        if isinstance(event, Listening):
            self._write(logging.INFO, f"{event.model} is served at {event.address}")
            self._set(replace(self.state, listening=event))
            return
        rate = f", {event.tokens} tokens, {event.rate:.1f} tokens/s" if event.rate else ""
        reason = f": {event.reason}" if event.reason else ""
        self._write(logging.INFO, f"{event.path} {event.status}{rate}{reason}")
        self._set(self.state.after(event))

    def _on_lines(self) -> None:
        for line in bytes(self._process.readAllStandardError().data()).decode(errors="replace").splitlines():
            if line.strip():
                self._last = line.strip()
                self._write(logging.WARNING, line.rstrip())

    def _on_error(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self._fail(self._process.errorString())

    def _on_finished(self, code: int, status: QProcess.ExitStatus) -> None:
        self._killing.stop()
        self._write(logging.INFO, "ended")
        if not self.state.stopping and (code or status != QProcess.ExitStatus.NormalExit):
            self._fail(self._last.removeprefix("wina: ") or f"exit code {code}")
        else:
            self._set(ServerState())

    def _fail(self, reason: str) -> None:
        self.failed.emit(reason)
        self._set(ServerState())

    def _set(self, state: ServerState) -> None:
        self.state = state
        self.changed.emit()

    def _write(self, level: int, text: str) -> None:
        _log.log(level, "%s", text, extra={"job": self._job_id})
