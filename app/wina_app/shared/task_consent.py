"""Consent to run the code of task folders, asked where a job was refused for want of it."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from PySide6.QtWidgets import QDialog, QDialogButtonBox, QListWidget, QPlainTextEdit, QWidget

from wina_app.style.theme import GRID, monospace
from wina_app.widgets.base_page import Page
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import text_label
from wina_core.errors import WinaError
from wina_core.studies.tasks.task_code import TaskCode, TaskCodeError, allow

Value = TypeVar("Value")


class TaskCodeDialog(QDialog):
    """One folder: the lines that ask for code, and its files to read."""

    def __init__(self, code: TaskCode, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Run code of a task folder?")
        self.resize(112 * GRID, 72 * GRID)
        self.requests = QPlainTextEdit("\n".join(f"{file}: {line}" for file, line in code.requests))
        self.requests.setAccessibleName("Lines that ask for code")
        self.requests.setMaximumHeight(GRID * 14)
        self.files = QListWidget()
        self.files.addItems(sorted(code.files))
        self.files.setMaximumWidth(GRID * 32)
        self.files.setAccessibleName("Files of the folder")
        self.text = QPlainTextEdit()
        self.text.setAccessibleName("Text of the file")
        for view in (self.requests, self.text):
            view.setReadOnly(True)
            view.setFont(monospace())
        self.files.currentTextChanged.connect(lambda name: self.text.setPlainText(code.files.get(name, "")))
        self.files.setCurrentRow(0)
        buttons = QDialogButtonBox()
        self.trust = buttons.addButton("Trust this folder", QDialogButtonBox.ButtonRole.AcceptRole)
        self.refuse = buttons.addButton("Do not run", QDialogButtonBox.ButtonRole.RejectRole)
        self.refuse.setDefault(True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        content = QWidget()
        hbox(content, self.files, (self.text, 1), spacing=GRID)
        vbox(
            self,
            text_label("The tasks of this folder ask to run code:", wrap=True),
            text_label(code.folder, "section", wrap=True),
            self.requests,
            text_label(
                (
                    "This code runs with all of your rights, here and on your machines; trust it only if you know "
                    "where it comes from."
                ),
                "failed",
                wrap=True,
            ),
            (content, 1),
            text_label(
                f"You are asked again after a change. Digest: {code.digest[:16]}",
                "muted",
                wrap=True,
            ),
            buttons,
            margins=(GRID * 2, GRID * 2, GRID * 2, GRID * 2),
            spacing=GRID,
        )


def ask_task_code(codes: Sequence[TaskCode], parent: QWidget) -> bool:
    return all(_is_trusted(code, parent) for code in codes)


def _is_trusted(code: TaskCode, parent: QWidget) -> bool:
    dialog = TaskCodeDialog(code, parent)
    trusted = dialog.exec() == QDialog.DialogCode.Accepted
    dialog.deleteLater()
    return trusted


def or_refusal(work: Callable[[], Value]) -> Value | TaskCodeError:
    """Return the value of some work, or its refusal, to be asked about in the main thread."""
    try:
        return work()
    except TaskCodeError as error:
        return error


def ask_consent(refusal: TaskCodeError, view: Page) -> bool:
    """Ask for the missing consent and store it; show that nothing runs without."""
    if not ask_task_code(refusal.codes, view):
        view.show_notice("Nothing was run: the code of the task folder is not trusted.")
        return False
    try:
        allow(refusal.codes)
    except WinaError as error:
        view.show_error(str(error))
        return False
    return True
