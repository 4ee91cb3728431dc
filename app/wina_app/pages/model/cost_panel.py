"""Cost panel of the Model page: cost of a generated token at a sparsity and a context."""

from PySide6.QtCore import QSignalBlocker, QSize, Qt, Signal
from PySide6.QtWidgets import QAbstractScrollArea, QHeaderView, QLabel, QTableWidget, QTableWidgetItem, QWidget

from wina_app.pages.model.cost import cost_table
from wina_app.pages.model.cost_bars import CostBars, stacks
from wina_app.shared.method_choices import explanation
from wina_app.style.icons import icon
from wina_app.style.number_format import fraction
from wina_app.style.theme import GRID, font, notifier, tokens
from wina_app.style.translation import tr
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import beside, captioned, text_label
from wina_app.widgets.fields import choices, decimal, whole_number
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.help_button import HelpButton
from wina_core.records import CostRecord
from wina_core.specs import DENSE, method_specs

_CONTEXT = 2_048
_EXPLANATION = tr(
    "One token, batch 1. Gated, as in the paper: gated projections, low-rank parts and the head. Net: with the "
    "rotation's residual shortcuts, the gating itself, attention over the context, norms and biases."
)


class CostPanel(QWidget):
    """Choice of method, sparsity (fraction) and context, and the table of costs."""

    changed = Signal(object, float, int)

    def __init__(self) -> None:
        super().__init__()
        self._record: CostRecord | None = None
        methods = [(spec.label, spec, explanation(spec)) for spec in method_specs() if spec != DENSE]
        self.method = choices(methods, tr("Gate rule of the cost"))
        self.method.setCurrentIndex(self.method.findText("wina"))
        self.sparsity = decimal(0.0, 99.9, 50.0, " %", decimals=1, step=1.0)
        self.context = whole_number(1, 16_777_216, _CONTEXT, tr(" tokens"))
        self.table = _Table()
        self.problem = text_label("", "failed", wrap=True)
        self.warning = text_label("", "muted", wrap=True)
        controls = FlowLayout(spacing=2 * GRID)
        for caption, control in (
            (tr("Method"), self.method),
            (tr("Sparsity"), self.sparsity),
            (tr("Context"), self.context),
        ):
            if not control.accessibleName():
                control.setAccessibleName(tr("{quantity} of the cost", quantity=caption))
            controls.addWidget(captioned(caption, control))
        column = vbox(self)
        heading: QLabel = text_label(tr("Cost of a generated token"), "section")
        heading.setToolTip(_EXPLANATION)
        column.addLayout(beside(heading, HelpButton("GFLOPs saved")))
        column.addLayout(controls)
        self.bars = CostBars()
        self._bars_heading = text_label(tr("Bytes read for a token, by part"), "section")
        below = (self._bars_heading, self.bars, text_label(_EXPLANATION, "muted", wrap=True))
        for widget in (self.problem, self.table, self.warning, *below):
            column.addWidget(widget)
        for box in (self.sparsity, self.context):
            box.valueChanged.connect(self.ask)
        self.method.currentIndexChanged.connect(self.ask)
        notifier().changed.connect(self._restyle)

    def reach(self, context: int) -> None:
        """Set the context, in tokens, to at most the model's; longer ones can still be typed."""
        with QSignalBlocker(self.context):
            self.context.setValue(min(_CONTEXT, context))

    def ask(self) -> None:
        """Emit the current choice."""
        self.changed.emit(self.method.currentData(), fraction(self.sparsity.value()), self.context.value())

    def show_cost(self, record: CostRecord | None, problem: str) -> None:
        """Show the cost, or why it is unknown."""
        self._record = record
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        for widget in (self.table, self._bars_heading, self.bars):
            widget.setVisible(record is not None)
        warnings = [] if record is None else [row.warning for row in record.rows if row.warning]
        self.warning.setText(warnings[-1] if warnings else "")
        self.warning.setVisible(bool(warnings))
        if record is not None:
            self.table.show_cost(record)
            self.bars.show_stacks(stacks(record))

    def _restyle(self) -> None:
        if self._record is not None:
            self.table.show_cost(self._record)


class _Table(QTableWidget):
    """Table as high as its lines: the page scrolls instead."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Cost of a generated token by rotation"))
        self.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        self.verticalHeader().hide()
        self.horizontalHeader().setHighlightSections(False)
        self.setSizeAdjustPolicy(QAbstractScrollArea.SizeAdjustPolicy.AdjustToContents)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def show_cost(self, record: CostRecord) -> None:
        """Fill the table."""
        table, t = cost_table(record), tokens()
        self.setFont(font(tabular=True))
        self.setRowCount(len(table.lines))
        self.setColumnCount(len(table.heads))
        for column, head in enumerate(table.heads):
            item = QTableWidgetItem(head)
            item.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignBottom)
            self.setHorizontalHeaderItem(column, item)
        for row, (line, tip, warned) in enumerate(zip(table.lines, table.tips, table.warned, strict=True)):
            for column, text in enumerate(line):
                item = QTableWidgetItem(text)
                item.setToolTip(tip)
                side = Qt.AlignmentFlag.AlignRight if column else Qt.AlignmentFlag.AlignLeft
                item.setTextAlignment(side | Qt.AlignmentFlag.AlignVCenter)
                if warned and not column:
                    item.setIcon(icon("failed", t.warning))
                self.setItem(row, column, item)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setStretchLastSection(False)
        self.resizeRowsToContents()
        self.resizeColumnsToContents()
        self.setFixedHeight(self.sizeHint().height())
        self.setMaximumWidth(header.length() + GRID)

    def sizeHint(self) -> QSize:
        """Return the size of all lines and headings."""
        rows = sum(self.rowHeight(row) for row in range(self.rowCount()))
        return QSize(GRID * 90, self.horizontalHeader().sizeHint().height() + rows + 4)
