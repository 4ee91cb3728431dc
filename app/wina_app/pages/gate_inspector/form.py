"""Form of the gate inspector: prompt, methods and the button."""

from PySide6.QtCore import QEvent, QSignalBlocker, Signal
from PySide6.QtWidgets import QCheckBox, QGridLayout, QPlainTextEdit, QProgressBar, QWidget

from wina_app.jobs.job_entry import JobEntry
from wina_app.pages.gate_inspector.view_state import PROMPT, ComparedMethod
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.clear_layout import clear_layout
from wina_app.widgets.controls import (
    ElidedLabel,
    explain_disabled,
    labelled,
    method_swatch,
    push_button,
    text_label,
    wrap_words,
)
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.start_button import StartButton
from wina_core.specs import MethodSpec

_COLUMNS = (4, 2, 1)
"""Numbers of columns of the methods."""
_LINES = 3


class GateForm(QWidget):
    """Form of an inspection."""

    prompt_changed = Signal(str)
    ticked = Signal(object, bool)
    """MethodSpec, and whether it is compared."""
    inspect_requested = Signal()
    cancel_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.prompt = QPlainTextEdit(PROMPT)
        wrap_words(self.prompt)
        self.prompt.setTabChangesFocus(True)
        self.prompt.setFixedHeight(_LINES * self.prompt.fontMetrics().lineSpacing() + 2 * GRID)
        self.prompt.textChanged.connect(lambda: self.prompt_changed.emit(self.prompt.toPlainText()))
        self.boxes: dict[MethodSpec, QCheckBox] = {}
        self._methods = QGridLayout()
        self._methods.setContentsMargins(0, 0, 0, 0)
        self._methods.setHorizontalSpacing(GRID)
        self._methods.setVerticalSpacing(0)
        self._room = 0
        self._groups: list[list[QCheckBox]] = []
        """Check boxes by column."""
        self.inspect = StartButton()
        self.inspect.clicked.connect(self.inspect_requested)
        self.cancel = push_button(tr("Cancel"), self.cancel_requested.emit, name=tr("Cancel the inspection"))
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(tr("Progress of the inspection"))
        self._doing = ElidedLabel("muted")
        buttons = hbox(None, self.inspect, self.cancel, STRETCH)
        vbox(
            self,
            labelled(tr("Prompt"), self.prompt),
            text_label(tr("Methods")),
            self._methods,
            buttons,
            self._bar,
            self._doing,
        )
        self.show_progress(None)

    def show_methods(self, choices: tuple[ComparedMethod, ...]) -> None:
        """Show the methods to tick; unsuitable ones are disabled with the reason."""
        if [choice.method for choice in choices] != list(self.boxes):
            self._make(choices)
        for choice in choices:
            box = self.boxes[choice.method]
            with QSignalBlocker(box):
                box.setChecked(choice.ticked and not choice.reason)
            note = tr("{method}: needs a calibration first, which takes a while", method=choice.method.label)
            explanation = choice.method.label if not choice.method.needs_calibration else note
            explain_disabled(box, enabled=not choice.reason, reason=choice.reason, explanation=explanation)

    def _make(self, choices: tuple[ComparedMethod, ...]) -> None:
        clear_layout(self._methods)
        self.boxes = {}
        for choice in choices:
            box = QCheckBox(choice.method.label)
            box.setIcon(method_swatch(choice.method.name))
            box.toggled.connect(lambda on, method=choice.method: self.ticked.emit(method, on))
            self.boxes[choice.method] = box
        self._arrange()

    def event(self, event: QEvent) -> bool:
        """Arrange the methods again when the text size changes."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._arrange()
        return super().event(event)

    def fit(self, width: int) -> None:
        """Arrange the methods in as many columns as fit a width."""
        self._room = width
        self._arrange()

    def _arrange(self) -> None:
        boxes = list(self.boxes.values())
        for columns in _COLUMNS:
            rows = -(-len(boxes) // columns)
            groups = [boxes[start : start + rows] for start in range(0, len(boxes), rows)] if boxes else []
            if self._width(groups) <= self._room:
                break
        if groups == self._groups:
            return
        self._groups = groups
        for column, group in enumerate(groups):
            for row, box in enumerate(group):
                self._methods.addWidget(box, row, column)
        for column in range(self._methods.columnCount()):
            self._methods.setColumnStretch(column, int(column == len(groups) - 1))

    def _width(self, groups: list[list[QCheckBox]]) -> int:
        widest = (max(box.sizeHint().width() for box in group) for group in groups)
        return sum(widest) + (len(groups) - 1) * self._methods.horizontalSpacing()

    def show_action(self, text: str, reason: str) -> None:
        """Name the button; a reason disables it."""
        self.inspect.setText(text)
        self.inspect.setAccessibleName(text)
        self.inspect.setEnabled(not reason)
        self.inspect.setToolTip(plain_tip(reason))

    def show_progress(self, entry: JobEntry | None) -> None:
        """Show the progress of the running inspection; None hides it."""
        for widget in (self._bar, self._doing, self.cancel):
            widget.setVisible(entry is not None)
        if entry is not None:
            self._bar.setRange(0, 0 if entry.fraction is None else 1000)
            self._bar.setValue(int(1000 * (entry.fraction or 0.0)))
            begins = tr("waiting for other jobs") if entry.phase == "queued" else tr("starting")
            self._doing.setText(entry.metric or begins)
