"""The asking side of `wina remote ask`: one connection of ssh, several questions."""

import subprocess
import threading
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from pydantic import BaseModel, ValidationError

from wina_core.engine.protocol import PROTOCOL
from wina_core.errors import WinaError, explain
from wina_core.files.version import __version__
from wina_core.machines.machine import Machine
from wina_core.machines.messages import MOST_LINE, Answer, Question
from wina_core.machines.ssh import explain_ssh, printable, ssh_command

PATIENCE_SECONDS = 60.0
"""Timeout of a question; the first one waits for the program's start on the machine."""
_MOST_GREETING = 200
"""Lines before the first answer that are left out: login scripts may print some."""
_MARK = b'{"wina_answer":'
_TAIL_BYTES = 16 * 1024

Result = TypeVar("Result", bound=BaseModel)


class Conversation:
    """A connection to `wina remote ask` on a machine, ended by leaving the block."""

    def __init__(self, machine: Machine) -> None:
        """Raises WinaError where there is no ssh."""
        self._machine = machine
        self._command = ssh_command(machine, "remote", "ask")
        self._stderr: deque[bytes] = deque(maxlen=64)
        self._late = False

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=pipe)
        self._reader = threading.Thread(target=self._read_stderr, name="stderr of ssh", daemon=True)
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(0.0 if kind else 5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._reader.join(1.0)

    def ask(
        self,
        operation: str,
        question: BaseModel,
        result: type[Result],
        patience: float = PATIENCE_SECONDS,
        most_bytes: int = MOST_LINE,
    ) -> Result:
        """Return the checked answer to a question.

        Raises WinaError for a failed connection, a program of another protocol, an answer that is late, too long or
        not one, and with the machine's own sentence where the operation failed there.
        """
        asked = Question(protocol=PROTOCOL, operation=operation, arguments=question.model_dump(mode="json"))
        timer = threading.Timer(patience, self._end)
        timer.daemon = True
        timer.start()
        try:
            line = self._exchange(asked.model_dump_json().encode() + b"\n", most_bytes)
        finally:
            timer.cancel()
        return self._checked(line, result)

    def _end(self) -> None:
        self._late = True
        self._process.kill()

    def _exchange(self, question: bytes, most_bytes: int) -> bytes:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with suppress(OSError):  # the connection failed, and stderr says why
            stdin.write(question)
            stdin.flush()
        for _ in range(_MOST_GREETING):
            line = stdout.readline(most_bytes + 1)
            if not line:
                raise self._failure()
            if len(line) > most_bytes:
                break
            if line.startswith(_MARK):
                return line
        self._process.kill()
        raise WinaError(
            f'The machine "{self._machine.name}" sent something other than an answer; check that its command starts '
            "wina and that login scripts there print nothing."
        )

    def _failure(self) -> WinaError:
        """Return the error of a connection that has ended."""
        if self._late:
            return WinaError(
                f'The machine "{self._machine.name}" did not answer in time; check the network and its load, then try '
                "again."
            )
        code = self._process.wait()
        self._reader.join(1.0)
        stderr = b"".join(self._stderr).decode(errors="replace")
        if "No such command" in stderr:
            return WinaError(
                f'wina on the machine "{self._machine.name}" is older than this one ({__version__}); update it: '
                f"wina machines setup {self._machine.name}."
            )
        return WinaError(explain_ssh(code, stderr, self._machine))

    def _checked(self, line: bytes, result: type[Result]) -> Result:
        name = self._machine.name
        try:
            answer = Answer.model_validate_json(line)
            if answer.wina_answer != PROTOCOL:
                raise WinaError(
                    f'The machine "{name}" has wina {answer.program} with protocol {answer.wina_answer}, this computer '
                    f"wina {__version__} with protocol {PROTOCOL}; install the same version on both: "
                    f"wina machines setup {name}."
                )
            if answer.error:
                raise WinaError(f"{name}: {printable(answer.error)}")
            return result.model_validate(answer.result)
        except ValidationError as error:
            self._process.kill()
            raise WinaError(
                f'The machine "{name}" sent an answer that cannot be used ({explain(error)[:300].rstrip(".")}).'
            ) from error

    def _read_stderr(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        for line in iter(lambda: stderr.readline(_TAIL_BYTES), b""):
            self._stderr.append(line)
        stderr.close()


def ask(machine: Machine, operation: str, question: BaseModel, result: type[Result]) -> Result:
    """Return the answer to one question. Raises WinaError as `Conversation.ask`."""
    with Conversation(machine) as conversation:
        return conversation.ask(operation, question, result)
