"""The asking side of `wina remote ask`: one connection of ssh, several questions."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from wina_core.errors import WinaError, explain, printable
from wina_core.files.version import PROTOCOL, __version__
from wina_core.remote.machines.line_process import LineProcess
from wina_core.remote.machines.messages import MOST_LINE, Answer, Question
from wina_core.remote.machines.ssh import ssh_command
from wina_core.specs.machine import Machine

PATIENCE_SECONDS = 60.0
"""Timeout of a question; the first one waits for the program's start on the machine."""
_MOST_GREETING = 200
"""Lines before the first answer that are left out: login scripts may print some."""
_MOST_PARTS = 2**20
"""Most quotes, and most characters outside of texts, of an answer over MOST_LINE."""
_MARK = b'{"wina_answer":'

Result = TypeVar("Result", bound=BaseModel)


class Conversation(LineProcess):
    """A connection to `wina remote ask` on a machine, ended by leaving the block."""

    def __init__(self, machine: Machine) -> None:
        """Raises WinaError where there is no ssh."""
        super().__init__(machine, ssh_command(machine, "remote", "ask"))

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
        with self.within(patience):
            self.send(asked.model_dump_json().encode() + b"\n")
            line = next(line for line in self.lines(_MOST_GREETING, most_bytes) if line.startswith(_MARK))
        return self._checked(line, result)

    def _checked(self, line: bytes, result: type[Result]) -> Result:
        name = self.machine.name
        if len(line) > MOST_LINE and _is_intricate(line):
            raise WinaError(f'The machine "{name}" sent an answer that cannot be used (it has too many parts).')
        try:
            answer = Answer.model_validate_json(line)
            if answer.wina_answer != PROTOCOL:
                raise WinaError(
                    f'The machine "{name}" has wina {printable(answer.program)} with protocol {answer.wina_answer}, '
                    f"this computer wina {__version__} with protocol {PROTOCOL}; install the same version on both: "
                    f"wina machines setup {name}."
                )
            if answer.error:
                raise WinaError(f"{name}: {printable(answer.error)}")
            return result.model_validate(answer.result)
        except ValidationError as error:
            self.end()
            cause = printable(explain(error)[:300]).rstrip(".")
            raise WinaError(f'The machine "{name}" sent an answer that cannot be used ({cause}).') from error


def _is_intricate(line: bytes) -> bool:
    """Return whether JSON has much else than long texts: parsed, it takes thirty times its size."""
    bare = line.replace(b"\\\\", b"").replace(b'\\"', b"")
    return bare.count(b'"') > _MOST_PARTS or sum(map(len, bare.split(b'"')[::2])) > _MOST_PARTS


def ask(machine: Machine, operation: str, question: BaseModel, result: type[Result]) -> Result:
    """Return the answer to one question. Raises WinaError as `Conversation.ask`."""
    with Conversation(machine) as conversation:
        return conversation.ask(operation, question, result)
