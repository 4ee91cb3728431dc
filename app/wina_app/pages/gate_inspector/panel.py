"""View of the gate inspector."""

from collections.abc import Callable

from PySide6.QtCore import QRect, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QGridLayout, QScrollArea, QWidget

from wina_app.jobs.job_entry import JobEntry
from wina_app.pages.gate_inspector.form import GateForm
from wina_app.pages.gate_inspector.plots import GateHistogram, GateScatter, input_text
from wina_app.pages.gate_inspector.tables import GateAgreement, GateFigures
from wina_app.pages.gate_inspector.token_map import GateMap
from wina_app.pages.gate_inspector.view_state import ComparedMethod, GateNow
from wina_app.style.number_format import percent
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.base_page import with_shortcut
from wina_app.widgets.boxes import STRETCH, vbox
from wina_app.widgets.combo_box import ComboBox
from wina_app.widgets.controls import ElidedLabel, labelled, text_label
from wina_app.widgets.fields import whole_number
from wina_app.widgets.message_bar import MessageBar
from wina_app.widgets.question import ComputeQuestion, ask_compute
from wina_core.analysis.gate_views import InspectedCell

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
        self._gates: tuple[GateNow, ...] = ()
        self._method = 0
        self._focus: tuple[int, int] | None = None
        self._command: QAction | None = None
        self._due = QTimer(self, singleShot=True, interval=0)
        self._due.timeout.connect(self._show_next)
        self._to_show: list[Callable[[], None]] = []
        self.title = text_label(tr("Gate inspector"), "section", wrap=True)
        self.remark = text_label("", "muted", wrap=True)
        self.message = MessageBar(self, lambda: QRect(GRID, GRID, self.viewport().width() - 2 * GRID, 0), "gate")
        self.form = GateForm()
        self.figures = GateFigures()
        self.token = ComboBox(tr("Token"))
        self.sorting = ComboBox(tr("Order of the inputs"))
        self.sorting.fill(
            [(tr("by index"), "index"), (tr("by column norm"), "norm"), (tr("by how often kept"), "kept")], "norm"
        )
        self.input = whole_number(0, 99, 0, name=tr("Input"))
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
        self._blocks = (self._choices(), *self._plots())
        self._arrange(1)
        content = QWidget()
        content.setProperty("role", "surface")
        content.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        vbox(
            content,
            self.title,
            self.remark,
            self.form,
            self._results,
            STRETCH,
            margins=(GRID, GRID, GRID, 2 * GRID),
        )
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(content)
        self._connect()
        self.show_cell(None, ())

    @property
    def plots(self) -> tuple[tuple[GateScatter | GateMap | GateHistogram, str], ...]:
        """Return the plots, each with a name for its file."""
        return (self.scatter, tr("gate")), (self.map, tr("mask")), (self.histogram, tr("scores"))

    def _choices(self) -> QWidget:
        holder, grid = QWidget(), QGridLayout()
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(GRID)
        grid.addLayout(labelled(tr("Token"), self.token), 0, 0)
        grid.addLayout(labelled(tr("Input"), self.input), 0, 1)
        grid.setColumnStretch(0, 1)
        vbox(holder, self.figures, grid, self.readout, STRETCH)
        return holder

    def _plots(self) -> tuple[QWidget, ...]:
        return (
            _block(tr("Magnitude against column norm"), self.legend, self.scatter, self.pointed),
            _block(tr("Mask, tokens by inputs"), self.sorting, self.map),
            _block(tr("Scores"), self.histogram),
            _block(
                tr("Agreement"),
                text_label(
                    tr("Above the diagonal: % decided alike. Below: Jaccard index of the kept inputs, %."),
                    "muted",
                    wrap=True,
                ),
                self.agreement,
            ),
        )

    def _arrange(self, columns: int) -> None:
        if columns == self._columns:
            return
        self._columns = columns
        for plot, _ in self.plots:
            plot.setMinimumWidth(20 * GRID)
            plot.setFixedHeight(_HEIGHTS[columns - 1])
        for place, block in enumerate(self._blocks):
            self._grid.addWidget(block, place // columns, place % columns)
        for column in range(2):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)

    def _connect(self) -> None:
        self.figures.method_chosen.connect(self._choose_method)
        self.token.currentIndexChanged.connect(lambda _: self._show_plots())
        self.sorting.currentIndexChanged.connect(lambda _: self._show_plots())
        self.input.valueChanged.connect(self._choose_input)
        for plot in (self.scatter, self.map):
            plot.picked.connect(self._pick)
        for plot in (self.scatter, self.map, self.histogram):
            plot.readout_changed.connect(self.pointed.setText)

    def show_subject(self, name: str, choices: tuple[ComparedMethod, ...], target: float | None) -> None:
        shown = "" if target is None else tr(" · target {target}", target=percent(target))
        self.title.setText(f"{name}{shown}" if name else tr("Gate inspector"))
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
        self.form.show_action(text, reason)
        self._enable_command()
        if self._cell is None:
            explanation = tr(
                "Runs the dense model on the prompt up to the selected cell, and shows which of its inputs each method "
                "would keep there, where it draws the line, and what that costs the output."
            )
            self.remark.setText(f"{explanation} {reason}." if reason else explanation)

    def show_progress(self, entry: JobEntry | None) -> None:
        self.form.show_progress(entry)

    def show_cell(self, cell: InspectedCell | None, now: tuple[GateNow, ...]) -> None:
        fresh = cell is not self._cell
        before = self._gates[self._method].method if self._gates else None
        self._cell, self._gates = cell, now
        self._results.setVisible(cell is not None)
        if cell is None:
            self.remark.show()
            return
        self._method = next((place for place, each in enumerate(now) if each.method == before), 0)
        if fresh:
            self._take(cell)
        self.figures.show_gates(now, self._method)
        self.agreement.show_gates(now)
        self._show_plots()

    def show_error(self, text: str) -> None:
        self.message.show_message("error", text)

    def show_notice(self, text: str) -> None:
        self.message.show_message("notice", text)

    def ask_compute(self, question: ComputeQuestion) -> bool:
        return ask_compute(self, question)

    def clear_message(self) -> None:
        self.message.clear()

    def _take(self, cell: InspectedCell) -> None:
        record = cell.record
        words = [f"{place} · {word.strip() or repr(word)}" for place, word in enumerate(record.tokens)]
        self.token.fill([(tr("all tokens"), None), *((word, place) for place, word in enumerate(words))], None)
        self.input.setRange(0, cell.inputs.shape[1] - 1)
        left = record.prompt_tokens - len(record.tokens)
        self.remark.setVisible(left > 0)
        if left > 0:
            self.remark.setText(
                tr("The first {shown} of {tokens} tokens.", shown=len(record.tokens), tokens=record.prompt_tokens)
            )
        self._focus = None
        for plot in (self.scatter, self.map, self.histogram):
            plot.unmark()
        self.readout.setText(tr("Click an input in a plot to mark it in all plots."))

    def _show_plots(self) -> None:
        """Draw each plot in its own turn of the event loop."""
        self._to_show = [self._show_scatter, self._show_map, self._show_histogram, self._show_focus]
        self._due.start()

    def _show_next(self) -> None:
        if self._cell is not None and self._to_show:
            self._to_show.pop(0)()
            self._due.start()

    def _show_histogram(self) -> None:
        self.histogram.show_scores(self._gates[self._method], self.token.currentData())

    def _show_scatter(self) -> None:
        if self._cell is None:
            return
        shown = self._gates[self._method]
        self.scatter.show_gates(self._cell, self._gates, shown, self.token.currentData())
        places = self.scatter.drawn
        drawn = "" if places is None else tr(" ({drawn} of {total} drawn)", drawn=places[0], total=places[1])
        self.legend.setText(tr("● kept by {method}  × dropped{drawn}", method=shown.method.label, drawn=drawn))

    def _show_map(self) -> None:
        if self._cell is not None:
            self.map.show_mask(self._cell, self._gates[self._method], self.sorting.currentData())

    def _show_focus(self) -> None:
        if self._cell is None or self._focus is None:
            return
        self.readout.setText(input_text(self._cell, self._gates[self._method], *self._focus))
        for plot in (self.scatter, self.map, self.histogram):
            plot.mark_input(*self._focus)

    def _choose_method(self, place: int) -> None:
        if place < len(self._gates):
            self._method = place
            self._show_plots()

    def _choose_input(self, neuron: int) -> None:
        token = self.token.currentData()
        self._focus = (token if token is not None else (self._focus or (0, 0))[0]), neuron
        self._show_focus()

    def _pick(self, token: int, neuron: int) -> None:
        self._focus = token, neuron
        self.input.blockSignals(True)
        self.input.setValue(neuron)
        self.input.blockSignals(False)
        self._show_focus()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange the plots in two columns if they fit."""
        super().resizeEvent(event)
        width = self.viewport().width()
        self._arrange(2 if width >= _WIDE else 1)
        self.form.fit(width - 2 * GRID)

    def showEvent(self, event: QShowEvent) -> None:
        """Emit that the inspector is shown."""
        super().showEvent(event)
        self.visible_changed.emit(True)

    def hideEvent(self, event: QHideEvent) -> None:
        """Emit that the inspector is hidden."""
        super().hideEvent(event)
        self.visible_changed.emit(False)


def _block(title: str, *widgets: QWidget) -> QWidget:
    """Return widgets under a heading."""
    holder = QWidget()
    column = vbox(holder, text_label(title, "section", wrap=True), margins=(0, GRID, 0, 0), spacing=GRID // 2)
    for widget in widgets:
        column.addWidget(widget)
    column.addStretch(1)
    return holder
