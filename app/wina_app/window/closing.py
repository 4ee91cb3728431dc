"""The question on closing the window while jobs run."""

from typing import Literal

from PySide6.QtWidgets import QMessageBox, QWidget

from wina_app.style.translation import tr

Choice = Literal["cancel", "background", "stay"]
"""Cancel the jobs and quit, quit and let them run, or keep the window."""


def ask(window: QWidget, jobs: int) -> Choice:
    """Ask what becomes of the running and waiting jobs."""
    text = tr("Not finished yet: {jobs}.", jobs=tr("{n} jobs", "{n} job", jobs))
    box = QMessageBox(QMessageBox.Icon.Question, tr("Quit WINA Workbench"), text, parent=window)
    box.setInformativeText(
        tr(
            "Stored results are kept either way. In the background the jobs continue in a process of their own, which "
            "begins the present measurements again; the next window on this database shows them, and so does the "
            "command: wina jobs."
        )
    )
    background = box.addButton(tr("Keep running in the background"), QMessageBox.ButtonRole.AcceptRole)
    cancel = box.addButton(tr("Cancel jobs and quit"), QMessageBox.ButtonRole.DestructiveRole)
    stay = box.addButton(tr("Keep working"), QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(stay)
    box.setEscapeButton(stay)
    box.exec()
    box.deleteLater()
    clicked = box.clickedButton()
    return "background" if clicked is background else "cancel" if clicked is cancel else "stay"
