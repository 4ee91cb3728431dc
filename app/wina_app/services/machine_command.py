"""`wina machines` in a process beside the window: check and set-up, which wait for ssh."""

from collections.abc import Sequence
from contextlib import suppress

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, Signal

from wina_app.style.translation import tr
from wina_core.files.own_command import own_command

_PATIENCE_MS = 3_000


class MachineCommand(QObject):
    """One command at a time; it ends with one of the last three signals."""

    line = Signal(str)
    """A line about its progress."""
    succeeded = Signal(str)
    """Its output."""
    failed = Signal(str)
    """One sentence."""
    stopped = Signal()

    def __init__(self, parent: QObject | None = None, command: Sequence[str] = own_command("wina_core.cli")) -> None:
        """Take the command that runs `wina`."""
        super().__init__(parent)
        self._command = tuple(command)
        self._last, self._is_stopping = "", False
        self._process = process = QProcess(self)
        variables = QProcessEnvironment.systemEnvironment()
        variables.insert("PYTHONIOENCODING", "utf-8")
        process.setProcessEnvironment(variables)
        process.readyReadStandardError.connect(self._on_lines)
        process.finished.connect(self._on_finished)
        process.errorOccurred.connect(self._on_error)

    @property
    def runs(self) -> bool:
        """Return whether a command runs."""
        return self._process.state() != QProcess.ProcessState.NotRunning

    def start(self, *words: str) -> None:
        """Start `wina machines` with these words, unless a command runs."""
        if self.runs:
            return
        self._last, self._is_stopping = "", False
        self._process.start(self._command[0], [*self._command[1:], "machines", *words])

    def stop(self) -> None:
        """End the command and its connection."""
        if self.runs:
            self._is_stopping = True
            self._kill()

    def leave(self) -> None:
        """End the command with the window."""
        if self.runs:
            self._process.blockSignals(True)
            self._kill()
            self._process.waitForFinished(_PATIENCE_MS)

    def _kill(self) -> None:
        """Kill the command and its ssh, which would stay until the machine says something."""
        import psutil  # type: ignore[import-untyped]  # 20 ms, not before the first paint

        with suppress(psutil.Error):
            for child in psutil.Process(self._process.processId()).children(recursive=True):
                child.kill()
        self._process.kill()

    def _on_lines(self) -> None:
        for line in bytes(self._process.readAllStandardError().data()).decode(errors="replace").splitlines():
            if line.strip():
                self._last = line.strip()
                self.line.emit(line.rstrip())

    def _on_error(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self.failed.emit(self._process.errorString())

    def _on_finished(self, code: int, status: QProcess.ExitStatus) -> None:
        self._on_lines()
        output = bytes(self._process.readAllStandardOutput().data()).decode(errors="replace")
        if self._is_stopping:
            self.stopped.emit()
        elif code or status != QProcess.ExitStatus.NormalExit:
            self.failed.emit(self._last.removeprefix("wina: ") or tr("exit code {code}", code=code))
        else:
            self.succeeded.emit(output)
