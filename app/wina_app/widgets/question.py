"""Question whether to compute what a job needs first."""

from dataclasses import dataclass

from PySide6.QtWidgets import QMessageBox, QWidget


@dataclass(frozen=True)
class ComputeQuestion:
    """Question before a job begins."""

    text: str
    """Why, a paragraph for each reason, with what it takes and what is free."""
    fits: bool = True
    """Whether there is enough memory and disk."""


def ask_compute(parent: QWidget, question: ComputeQuestion) -> bool:
    """Ask whether to begin a job; computing is the default, as on the command line, unless something is short."""
    box = QMessageBox(QMessageBox.Icon.Question, "Compute it now?", question.text, parent=parent)
    box.setInformativeText("Results are stored and reused. A computation can be paused.")
    compute = box.addButton("Compute now", QMessageBox.ButtonRole.AcceptRole)
    cancel = box.addButton("Cancel", QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(compute if question.fits else cancel)
    box.exec()
    agreed = box.clickedButton() is compute
    box.deleteLater()
    return agreed
