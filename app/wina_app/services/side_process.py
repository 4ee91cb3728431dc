"""A command beside the window, for work that would delay the engine or the store's thread."""

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, Signal

_PATIENCE_MS = 2_000


class SideProcess(QObject):
    """A process that runs once and ends with one of the two signals, or with neither after `stop`."""

    succeeded = Signal(str)
    """Its whole output."""
    failed = Signal(str)
    """The last line of its output, or the reason why it could not be started."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, parent: QObject | None = None
    ) -> None:
        """`environment` adds to the window's environment variables."""
        super().__init__(parent)
        self._process = QProcess(self)
        self._process.setProcessChannelMode(QProcess.ProcessChannelMode.MergedChannels)
        variables = QProcessEnvironment.systemEnvironment()
        for name, value in {"PYTHONIOENCODING": "utf-8", **(environment or {})}.items():
            variables.insert(name, value)
        self._process.setProcessEnvironment(variables)
        self._process.finished.connect(self._on_finished)
        self._process.errorOccurred.connect(self._on_error)
        self._command = tuple(command)

    def start(self) -> None:
        self._process.start(self._command[0], list(self._command[1:]))

    def stop(self) -> None:
        """End the process, if it runs."""
        self._process.blockSignals(True)
        self._process.kill()
        self._process.waitForFinished(_PATIENCE_MS)

    def _on_error(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self.failed.emit(self._process.errorString())

    def _on_finished(self, code: int, status: QProcess.ExitStatus) -> None:
        output = bytes(self._process.readAll().data()).decode(errors="replace").strip()
        if code == 0 and status == QProcess.ExitStatus.NormalExit:
            self.succeeded.emit(output)
        else:
            self.failed.emit(output.splitlines()[-1] if output else f"exit code {code}")
