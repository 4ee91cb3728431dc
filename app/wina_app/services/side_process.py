"""A command beside the window, for work that would delay the engine or the store's thread."""

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, Signal

_PATIENCE_MS = 2_000


def environment_with(added: Mapping[str, str]) -> QProcessEnvironment:
    """Return the window's environment and some more variables for a program in Python."""
    variables = QProcessEnvironment.systemEnvironment()
    # Python writes to a pipe in the encoding of the system, which on Windows is not UTF-8.
    for name, value in {"PYTHONIOENCODING": "utf-8", **added}.items():
        variables.insert(name, value)
    return variables


class SideProcess(QObject):
    """A process that runs once and is deleted after one of the two signals, or without either after `stop`."""

    succeeded = Signal(str)
    """Its whole output."""
    failed = Signal(str)
    """The last line of its output, without the name of `wina`, or the reason why it could not be started."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, parent: QObject | None = None
    ) -> None:
        """`environment` adds to the window's environment variables."""
        super().__init__(parent)
        self._process = QProcess(self)
        self._process.setProcessChannelMode(QProcess.ProcessChannelMode.MergedChannels)
        self._process.setProcessEnvironment(environment_with(environment or {}))
        self._process.finished.connect(self._on_finished)
        self._process.errorOccurred.connect(self._on_error)
        self._command = tuple(command)
        self.succeeded.connect(self.deleteLater)
        self.failed.connect(self.deleteLater)

    def start(self) -> None:
        self._process.start(self._command[0], list(self._command[1:]))

    def stop(self) -> None:
        """End the process, if it runs."""
        self._process.blockSignals(True)
        self._process.kill()
        self._process.waitForFinished(_PATIENCE_MS)
        self.deleteLater()

    def _on_error(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self.failed.emit(self._process.errorString())

    def _on_finished(self, code: int, status: QProcess.ExitStatus) -> None:
        output = bytes(self._process.readAll().data()).decode(errors="replace").strip()
        if code == 0 and status == QProcess.ExitStatus.NormalExit:
            self.succeeded.emit(output)
        else:
            self.failed.emit(output.splitlines()[-1].removeprefix("wina: ") if output else f"exit code {code}")


def stop_processes(parent: QObject) -> None:
    """Stop the side processes of an object, with the window."""
    for process in parent.findChildren(SideProcess):
        process.stop()
