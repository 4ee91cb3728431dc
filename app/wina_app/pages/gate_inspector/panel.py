"""View of the gate inspector, with its form."""

from collections.abc import Callable

from PySide6.QtCore import QRect, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QCheckBox, QGridLayout, QPlainTextEdit, QProgressBar, QScrollArea, QWidget

from wina_app.jobs.job_entry import JobEntry
from wina_app.pages.gate_inspector.plots import GateHistogram, GateMap, GateScatter, input_text
from wina_app.pages.gate_inspector.tables import GateAgreement, GateFigures
from wina_app.pages.gate_inspector.view_state import PROMPT, ComparedMethod, PlannedGate
from wina_app.style.number_format import percent
from wina_app.style.theme import GRID
from wina_app.widgets.base_page import with_shortcut
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.clear_layout import clear_layout
from wina_app.widgets.combo_box import ComboBox
from wina_app.widgets.controls import (
    ElidedLabel,
    explain_disabled,
    labelled,
    method_swatch,
    push_button,
    text_label,
    wrap_words,
)
from wina_app.widgets.fields import whole_number
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.message_bar import MessageBar
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.question import ComputeQuestion, ask_compute
from wina_app.widgets.start_button import StartButton
from wina_core.analysis.gate_views import InspectedCell
from wina_core.specs import MethodSpec

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
        self._methods = FlowLayout()
        self.inspect = StartButton()
        self.inspect.clicked.connect(self.inspect_requested)
        self.cancel = push_button("Cancel", self.cancel_requested.emit, name="Cancel the inspection")
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName("Progress of the inspection")
        self._doing = ElidedLabel("muted")
        buttons = hbox(None, self.inspect, self.cancel, STRETCH)
        vbox(
            self, labelled("Prompt", self.prompt), text_label("Methods"), self._methods, buttons, self._bar, self._doing
        )
        self.show_progress(None)

    def show_methods(self, choices: tuple[ComparedMethod, ...]) -> None:
        """Show the methods to tick; unsuitable ones are disabled with the reason."""
        if [choice.method for choice in choices] != list(self.boxes):
            self._make_boxes(choices)
        for choice in choices:
            box = self.boxes[choice.method]
            with QSignalBlocker(box):
                box.setChecked(choice.ticked and not choice.reason)
            note = f"{choice.method.label}: needs a calibration first, which takes a while"
            explanation = choice.method.label if not choice.method.needs_calibration else note
            explain_disabled(box, enabled=not choice.reason, reason=choice.reason, explanation=explanation)

    def _make_boxes(self, choices: tuple[ComparedMethod, ...]) -> None:
        clear_layout(self._methods)
        self.boxes = {}
        for choice in choices:
            box = QCheckBox(choice.method.label)
            box.setIcon(method_swatch(choice.method.name))
            box.toggled.connect(lambda on, method=choice.method: self.ticked.emit(method, on))
            self.boxes[choice.method] = box
            self._methods.addWidget(box)

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
            begins = "waiting for other jobs" if entry.phase == "queued" else "starting"
            self._doing.setText(entry.metric or begins)


_WIDE = 90 * GRID
"""Least width of two columns of plots."""
_HEIGHTS = (32 * GRID, 44 * GRID)
"""Heights of the plots in one and in two columns."""


class GateInspector(QScrollArea):
    """Inspector of a cell's kept and dropped inputs; it chooses token, input and method itself."""

    visible_changed = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self._cell: InspectedCell | None = None
        self._gates: tuple[PlannedGate, ...] = ()
        self._method = 0
        self._focus: tuple[int, int] | None = None
        self._command: QAction | None = None
        self._next_plot = QTimer(self, singleShot=True, interval=0)
        self._next_plot.timeout.connect(self._show_next)
        self._pending_plots: list[Callable[[], None]] = []
        self.title = text_label("Gate inspector", "section", wrap=True)
        self.remark = text_label("", "muted", wrap=True)
        self.message = MessageBar(self, lambda: QRect(GRID, GRID, self.viewport().width() - 2 * GRID, 0), "gate")
        self.form = GateForm()
        self.figures = GateFigures()
        self.token = ComboBox("Token")
        self.sorting = ComboBox("Order of the inputs")
        self.sorting.fill([("by index", "index"), ("by column norm", "norm"), ("by how often kept", "kept")], "norm")
        self.input = whole_number(0, 99, 0, name="Input")
        self.readout = text_label("", "muted", wrap=True)
        self.readout.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.pointed = ElidedLabel("muted")
        self.scatter, self.map, self.histogram = GateScatter(), GateMap(), GateHistogram()
        self.agreement = GateAgreement()
        self.legend = text_label("", "muted", wrap=True)
        self._results = QWidget()
        self._grid = QGridLayout(self._results)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(GRID)
        self._columns = 0
        self._blocks = self._build_blocks()
        self._arrange(1)
        content = QWidget()
        content.setProperty("role", "surface")
        content.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        margins = (GRID, GRID, GRID, 2 * GRID)
        vbox(content, self.title, self.remark, self.form, self._results, STRETCH, margins=margins)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(content)
        self._connect()
        self.show_cell(None, ())

    @property
    def plots(self) -> tuple[tuple[GateScatter | GateMap | GateHistogram, str], ...]:
        """Return the plots, each with a name for its file."""
        return (self.scatter, "gate"), (self.map, "mask"), (self.histogram, "scores")

    def _build_blocks(self) -> tuple[QWidget, ...]:
        """Return the figures with the choices, then each plot or table under its title."""
        choices, grid = QWidget(), QGridLayout()
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(GRID)
        grid.addLayout(labelled("Token", self.token), 0, 0)
        grid.addLayout(labelled("Input", self.input), 0, 1)
        grid.setColumnStretch(0, 1)
        vbox(choices, self.figures, grid, self.readout, STRETCH)
        halves = "Above the diagonal: % decided alike. Below: Jaccard index of the kept inputs, %."
        return (
            choices,
            _block("Magnitude against column norm", self.legend, self.scatter, self.pointed),
            _block("Mask, tokens by inputs", self.sorting, self.map),
            _block("Scores", self.histogram),
            _block("Agreement", text_label(halves, "muted", wrap=True), self.agreement),
        )

    def _arrange(self, columns: int) -> None:
        if columns == self._columns:
            return
        self._columns = columns
        for plot, _ in self.plots:
            plot.setMinimumWidth(20 * GRID)
            plot.setFixedHeight(_HEIGHTS[columns - 1])
        for index, block in enumerate(self._blocks):
            self._grid.addWidget(block, index // columns, index % columns)
        for column in range(2):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)

    def _connect(self) -> None:
        self.figures.method_chosen.connect(self._choose_method)
        for box in (self.token, self.sorting):
            box.currentIndexChanged.connect(lambda _: self._show_plots())
        self.input.valueChanged.connect(self._choose_input)
        for plot in (self.scatter, self.map):
            plot.picked.connect(self._pick)
        for plot, _ in self.plots:
            plot.readout_changed.connect(self.pointed.setText)

    def show_subject(self, name: str, choices: tuple[ComparedMethod, ...], target: float | None) -> None:
        """Show the cell's name and target, empty for none, and its methods."""
        suffix = "" if target is None else f" · target {percent(target)}"
        self.title.setText(f"{name}{suffix}" if name else "Gate inspector")
        self.form.show_methods(choices)

    def set_command(self, command: QAction) -> None:
        """Set the command that is enabled with the button."""
        self._command = command
        self._enable_command()

    def _enable_command(self) -> None:
        if self._command is not None:
            tip = self._command.text() if self.form.inspect.isEnabled() else self.form.inspect.toolTip()
            self._command.setEnabled(self.form.inspect.isEnabled())
            self._command.setToolTip(with_shortcut(tip, self._command.shortcut().toString()))

    def show_action(self, text: str, reason: str) -> None:
        """Name the button; a reason disables it."""
        self.form.show_action(text, reason)
        self._enable_command()
        if self._cell is None:
            explanation = (
                "Runs the dense model on the prompt up to the selected cell, and shows which of its inputs each method "
                "would keep there, where it draws the line, and what that costs the output."
            )
            self.remark.setText(f"{explanation} {reason}." if reason else explanation)

    def show_cell(self, cell: InspectedCell | None, gates: tuple[PlannedGate, ...]) -> None:
        """Show an inspected cell; None if it was not inspected."""
        fresh = cell is not self._cell
        before = self._gates[self._method].method if self._gates else None
        self._cell, self._gates = cell, gates
        self._results.setVisible(cell is not None)
        if cell is None:
            self.remark.show()
            return
        self._method = next((index for index, gate in enumerate(gates) if gate.method == before), 0)
        if fresh:
            self._show_record(cell)
        self.figures.show_gates(gates, self._method)
        self.agreement.show_gates(gates)
        self._show_plots()

    def show_error(self, text: str, retry: Callable[[], object] | None = None) -> None:
        self.message.show_message("error", text, retry)

    def show_notice(self, text: str) -> None:
        self.message.show_message("notice", text)

    def ask_compute(self, question: ComputeQuestion) -> bool:
        return ask_compute(self, question)

    def clear_message(self) -> None:
        self.message.clear()

    def _show_record(self, cell: InspectedCell) -> None:
        record = cell.record
        words = [f"{index} · {word.strip() or repr(word)}" for index, word in enumerate(record.tokens)]
        self.token.fill([("all tokens", None), *((word, index) for index, word in enumerate(words))], None)
        self.input.setRange(0, cell.inputs.shape[1] - 1)
        left = record.prompt_tokens - len(record.tokens)
        self.remark.setVisible(left > 0)
        if left > 0:
            self.remark.setText(f"The first {len(record.tokens)} of {record.prompt_tokens} tokens.")
        self._focus = None
        for plot, _ in self.plots:
            plot.unmark()
        self.readout.setText("Click an input in a plot to mark it in all plots.")

    def _show_plots(self) -> None:
        """Draw each plot in its own turn of the event loop: all in one would stall the window."""
        self._pending_plots = [self._show_scatter, self._show_map, self._show_histogram, self._show_focus]
        self._next_plot.start()

    def _show_next(self) -> None:
        if self._cell is not None and self._pending_plots:
            self._pending_plots.pop(0)()
            self._next_plot.start()

    def _show_histogram(self) -> None:
        self.histogram.show_scores(self._gates[self._method], self.token.currentData())

    def _show_scatter(self) -> None:
        if self._cell is None:
            return
        current = self._gates[self._method]
        self.scatter.show_gates(self._cell, self._gates, current, self.token.currentData())
        counts = self.scatter.drawn
        drawn = "" if counts is None else f" ({counts[0]} of {counts[1]} drawn)"
        self.legend.setText(f"● kept by {current.method.label}  × dropped{drawn}")

    def _show_map(self) -> None:
        if self._cell is not None:
            self.map.show_mask(self._cell, self._gates[self._method], self.sorting.currentData())

    def _show_focus(self) -> None:
        if self._cell is None or self._focus is None:
            return
        self.readout.setText(input_text(self._cell, self._gates[self._method], *self._focus))
        for plot, _ in self.plots:
            plot.mark_input(*self._focus)

    def _choose_method(self, index: int) -> None:
        if index < len(self._gates):
            self._method = index
            self._show_plots()

    def _choose_input(self, neuron: int) -> None:
        token = self.token.currentData()
        self._focus = (token if token is not None else (self._focus or (0, 0))[0]), neuron
        self._show_focus()

    def _pick(self, token: int, neuron: int) -> None:
        self._focus = token, neuron
        with QSignalBlocker(self.input):  # or it would pick the input for the token chosen in the box
            self.input.setValue(neuron)
        self._show_focus()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange the plots in two columns if they fit."""
        super().resizeEvent(event)
        self._arrange(2 if self.viewport().width() >= _WIDE else 1)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.visible_changed.emit(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.visible_changed.emit(False)


def _block(title: str, *widgets: QWidget) -> QWidget:
    holder = QWidget()
    column = vbox(holder, text_label(title, "section", wrap=True), margins=(0, GRID, 0, 0), spacing=GRID // 2)
    for widget in widgets:
        column.addWidget(widget)
    column.addStretch(1)
    return holder
