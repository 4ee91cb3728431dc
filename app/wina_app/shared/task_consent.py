"""Consent to run the code of task folders, asked where a job was refused for want of it."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from wina_app.shared.message_view import MessageView
from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.studies.tasks.task_code import TaskCode, TaskCodeError, allow

Value = TypeVar("Value")


class ConsentView(MessageView, Protocol):
    """View that asks for consent."""

    def ask_task_code(self, codes: Sequence[TaskCode]) -> bool:
        """Show the code of task folders, and return whether the user trusts it."""


def or_refusal(work: Callable[[], Value]) -> Value | TaskCodeError:
    """Return the value of some work, or its refusal, to be asked about in the main thread."""
    try:
        return work()
    except TaskCodeError as error:
        return error


def ask_consent(refusal: TaskCodeError, view: ConsentView) -> bool:
    """Ask for the missing consent and store it; show that nothing runs without."""
    if not view.ask_task_code(refusal.codes):
        view.show_notice(tr("Nothing was run: the code of the task folder is not trusted."))
        return False
    try:
        allow(refusal.codes)
    except WinaError as error:
        view.show_error(str(error))
        return False
    return True
