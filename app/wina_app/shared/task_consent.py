"""Consent to run the code of task folders, asked before a launch that needs it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from wina_app.shared.message_view import MessageView
from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.jobs import PendingRun
from wina_core.studies.tasks.task_code import TaskCode, allow, allowed_code, not_allowed, requested_code


class ConsentView(MessageView, Protocol):
    """View that asks for consent."""

    def ask_task_code(self, codes: Sequence[TaskCode]) -> bool:
        """Show the code of task folders, and return whether the user trusts it."""


class TaskConsent(NamedTuple):
    """Code that runs request."""

    digests: dict[str, str]
    """Digests by folder, for the job."""
    missing: tuple[TaskCode, ...]
    """Code that the user did not allow yet."""


def read_consent(runs: Iterable[PendingRun]) -> TaskConsent:
    """Read the code that the runs ask for, and the stored consents; reads files: not for the main thread."""
    codes = requested_code(runs)
    missing = not_allowed(codes, allowed_code())
    return TaskConsent({code.folder: code.digest for code in codes}, missing)


def ask_consent(consent: TaskConsent, view: ConsentView) -> bool:
    """Ask for the missing consent and store it; show that nothing runs without."""
    if not view.ask_task_code(consent.missing):
        view.show_notice(tr("Nothing was run: the code of the task folder is not trusted."))
        return False
    try:
        allow(consent.missing)
    except WinaError as error:
        view.show_error(str(error))
        return False
    return True
