"""Question whether to compute what a job needs first, with the resources it takes and those available."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QGridLayout, QHBoxLayout, QLabel, QWidget

from wina_app.style.icons import icon
from wina_app.style.theme import GRID, HALF, scaled, state_colour
from wina_app.widgets.boxes import Item, hbox, vbox
from wina_app.widgets.controls import ElidedLabel, text_label

_STATES = {True: ("done", "fits"), False: ("failed", "too little")}
_ICON = QSize(14, 14)


@dataclass(frozen=True)
class ResourceRow:
    """A resource that a job takes."""

    name: str
    """For example "Memory, layer by layer"."""
    needed: str
    available: str = ""
    fits: bool | None = None
    """Whether there is enough of it; None if that is unknown or irrelevant."""


@dataclass(frozen=True)
class ComputeQuestion:
    """Question before a job begins."""

    text: str
    """Why, a line or sentence for each reason."""
    resources: Sequence[ResourceRow] = ()
    advice: str = ""
    """The way that fits, and better ones."""

    @property
    def fits(self) -> bool:
        return all(row.fits is not False for row in self.resources)


class QuestionDialog(QDialog):
    """A question with a table of resources. Computing is the default, as on the command line, unless one is short."""

    def __init__(self, parent: QWidget, question: ComputeQuestion) -> None:
        super().__init__(parent)
        self.setWindowTitle("Compute it now?")
        buttons = QDialogButtonBox()
        self.compute = buttons.addButton("Compute now", QDialogButtonBox.ButtonRole.AcceptRole)
        self.cancel = buttons.addButton("Cancel", QDialogButtonBox.ButtonRole.RejectRole)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        about = "Results are stored and reused. A computation can be paused."
        items: list[Item] = [text_label(question.text, wrap=True)]
        items += [_table(question.resources)] if question.resources else []
        items += [text_label(question.advice, wrap=True)] if question.advice else []
        margins = (GRID * 3, GRID * 3, GRID * 3, GRID * 2)
        about_line = text_label(about, "muted", wrap=True)
        self._column = vbox(self, *items, about_line, buttons, margins=margins, spacing=GRID * 2)
        default = self.compute if question.fits else self.cancel
        default.setDefault(True)
        default.setFocus()
        self._fit()

    def event(self, event: QEvent) -> bool:
        """Follow the needs of the texts, which change with their style and size."""
        handled = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit()
        return handled

    def _fit(self) -> None:
        width = max(scaled(GRID * 70), self._column.totalMinimumSize().width())
        self.resize(width, self._column.totalHeightForWidth(width))


def ask_compute(parent: QWidget, question: ComputeQuestion) -> bool:
    """Ask whether to begin a job that takes what the question says."""
    dialog = QuestionDialog(parent, question)
    agreed = dialog.exec() == QDialog.DialogCode.Accepted
    dialog.deleteLater()
    return agreed


def _table(resources: Sequence[ResourceRow]) -> QGridLayout:
    """Return a table of resources: name, need, what is available with its folder elided, and whether it fits."""
    grid = QGridLayout()
    grid.setHorizontalSpacing(GRID * 3)
    grid.setVerticalSpacing(HALF)
    grid.setColumnStretch(2, 1)
    grid.setColumnMinimumWidth(2, scaled(GRID * 28))
    for column, head in enumerate(("Resource", "Needed", "Available")):
        grid.addWidget(text_label(head, "muted"), 0, column)
    for line, row in enumerate(resources, start=1):
        available = ElidedLabel(elide=Qt.TextElideMode.ElideMiddle)
        available.setText(row.available)
        for column, label in enumerate((text_label(row.name), text_label(row.needed), available)):
            grid.addWidget(label, line, column)
        if row.fits is not None:
            grid.addLayout(_state(row.fits), line, 3)
    return grid


def _state(fits: bool) -> QHBoxLayout:
    """Return the state of a resource, an icon with a word."""
    look, word = _STATES[fits]
    mark = QLabel()
    mark.setPixmap(icon(look, state_colour(look).name()).pixmap(_ICON))
    return hbox(None, mark, (text_label(word, "muted" if fits else "failed"), 1), spacing=HALF)
