"""Question whether to compute what a job needs first, with what it takes against what there is."""

from collections.abc import Sequence

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QGridLayout, QHBoxLayout, QLabel, QWidget

from wina_app.style.icons import icon
from wina_app.style.theme import GRID, HALF, scaled, state_colour
from wina_app.style.translation import tr
from wina_app.widgets.boxes import Item, hbox, vbox
from wina_app.widgets.compute_question import ComputeQuestion, ResourceRow
from wina_app.widgets.controls import text_label

_STATES = {True: ("done", tr("fits")), False: ("failed", tr("too little"))}
_ICON = QSize(14, 14)


class QuestionDialog(QDialog):
    """A question with a table of resources; cancelling is the default where one of them is short."""

    def __init__(self, parent: QWidget, question: ComputeQuestion) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Compute it now?"))
        buttons = QDialogButtonBox()
        self.compute = buttons.addButton(tr("Compute now"), QDialogButtonBox.ButtonRole.AcceptRole)
        self.cancel = buttons.addButton(tr("Cancel"), QDialogButtonBox.ButtonRole.RejectRole)
        self.cancel.setDefault(True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        about = tr("Results are stored and reused. A computation can be paused.")
        items: list[Item] = [text_label(question.text, wrap=True)]
        items += [_table(question.resources)] if question.resources else []
        items += [text_label(question.advice, wrap=True)] if question.advice else []
        margins = (GRID * 3, GRID * 3, GRID * 3, GRID * 2)
        vbox(self, *items, text_label(about, "muted", wrap=True), buttons, margins=margins, spacing=GRID * 2)
        self.setMinimumWidth(scaled(GRID * 70))
        self.cancel.setFocus()


def ask_compute(parent: QWidget, question: ComputeQuestion) -> bool:
    """Ask whether to begin a job that takes what the question says."""
    dialog = QuestionDialog(parent, question)
    agreed = dialog.exec() == QDialog.DialogCode.Accepted
    dialog.deleteLater()
    return agreed


def _table(resources: Sequence[ResourceRow]) -> QGridLayout:
    """Return a table of resources: what, how much is needed, how much there is, and whether it fits."""
    grid = QGridLayout()
    grid.setHorizontalSpacing(GRID * 3)
    grid.setVerticalSpacing(HALF)
    grid.setColumnStretch(3, 1)
    for column, head in enumerate((tr("Resource"), tr("Needed"), tr("There is"))):
        grid.addWidget(text_label(head, "muted"), 0, column)
    for line, row in enumerate(resources, start=1):
        for column, text in enumerate((row.what, row.needed, row.available)):
            grid.addWidget(text_label(text), line, column)
        if row.fits is not None:
            grid.addLayout(_state(row.fits), line, 3)
    return grid


def _state(fits: bool) -> QHBoxLayout:
    """Return the state of a resource, an icon with a word."""
    look, word = _STATES[fits]
    mark = QLabel()
    mark.setPixmap(icon(look, state_colour(look).name()).pixmap(_ICON))
    return hbox(None, mark, (text_label(word, "muted" if fits else "failed"), 1), spacing=HALF)
