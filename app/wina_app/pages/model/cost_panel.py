"""Cost of a generated token on the Model page: its table, and the panel with its choices."""

from dataclasses import dataclass

from PySide6.QtCore import QSignalBlocker, QSize, Qt, Signal
from PySide6.QtWidgets import (
    QAbstractScrollArea,
    QHeaderView,
    QLabel,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from wina_app.style.icons import icon
from wina_app.style.number_format import PREFIXES, fraction, percent, three_digits
from wina_app.style.theme import GRID, font, notifier, tokens
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import beside, captioned, text_label
from wina_app.widgets.fields import choices, decimal, whole_number
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.help_button import HelpButton
from wina_core.records import CostRecord, CostRow
from wina_core.specs import DENSE, method_specs
from wina_core.specs.methods import get_method

NAMES: dict[str, str] = {
    "dense": "Dense",
    "none": "No rotation",
    "global": "Global",
    "per_layer": "Per layer",
    "per_site": "Per site, as published",
}

_CONTEXT = 2_048
_EXPLANATION = (
    "One token, batch 1. Gated, as in the paper: gated projections, low-rank parts and the head. Net: with the "
    "rotation's residual shortcuts, the gating itself, attention over the context, norms and biases."
)


@dataclass(frozen=True)
class CostTable:
    """Texts of a table; the first column names the line."""

    heads: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    tips: tuple[str, ...]
    """One per line: its terms, after its warning if any."""
    warned: tuple[bool, ...]
    """True if a line's rotation costs more than its sparsity saves."""


def cost_table(record: CostRecord) -> CostTable:
    """Return all quantities in the unit of the dense model's, with three digits, and the savings."""
    dense = record.rows[0]
    flops, flops_unit = _scale(dense.net_flops)
    bytes_, bytes_unit = _scale(dense.net_bytes)
    gated, net = "Gated", "Net"
    quantities = (f"{flops_unit}FLOPs", "saved", f"{bytes_unit}B", "saved")
    heads = ["", *(f"{over}\n{below}" for over, below in zip((gated, "", "", ""), quantities, strict=True))]
    heads += [f"{over}\n{below}" for over, below in zip((net, "", "", ""), quantities, strict=True)]
    return CostTable(
        (*heads, "Net\nsparsity", "Read\nbits/weight", f"Held\n{bytes_unit}B"),
        tuple(_line(row, flops, bytes_) for row in record.rows),
        tuple(_tip(row, flops, flops_unit, bytes_, bytes_unit) for row in record.rows),
        tuple(bool(row.warning) for row in record.rows),
    )


def _line(row: CostRow, flops: float, bytes_: float) -> tuple[str, ...]:
    sparse = row.rotation != "dense"
    return (
        NAMES[row.rotation],
        three_digits(row.gated_flops / flops),
        percent(row.gated_flops_saving) if sparse else "",
        three_digits(row.gated_bytes / bytes_),
        percent(row.gated_bytes_saving) if sparse else "",
        three_digits(row.net_flops / flops),
        percent(row.net_flops_saving) if sparse else "",
        three_digits(row.net_bytes / bytes_),
        percent(row.net_bytes_saving) if sparse else "",
        percent(row.net_sparsity) if sparse else "",
        three_digits(row.bits_read),
        three_digits(row.bytes_held / bytes_),
    )


def _tip(row: CostRow, flops: float, flops_unit: str, bytes_: float, bytes_unit: str) -> str:
    terms = [
        f"{term.name}: {three_digits(term.flops / flops)} {flops_unit}FLOPs, "
        f"{three_digits(term.bytes / bytes_)} {bytes_unit}B"
        for term in row.terms
        if term.flops or term.bytes
    ]
    bits = (
        f"{three_digits(row.bits_read)} bits read and {three_digits(row.bits_held)} held per gated weight; "
        f"{three_digits(row.bytes_held / bytes_)} {bytes_unit}B held in all, KV cache included"
    )
    return "\n".join([*filter(None, (row.warning,)), bits, *terms])


def _scale(value: float) -> tuple[float, str]:
    return next(((scale, prefix) for scale, prefix in PREFIXES if value >= scale), (1.0, ""))


class CostPanel(QWidget):
    """Choice of method, sparsity (fraction) and context, and the table of costs."""

    changed = Signal(object, float, int)

    def __init__(self) -> None:
        super().__init__()
        self._record: CostRecord | None = None
        methods = [(spec.label, spec, get_method(spec).summary) for spec in method_specs() if spec != DENSE]
        self.method = choices(methods, "Gate rule of the cost")
        self.method.setCurrentIndex(self.method.findText("wina"))
        self.sparsity = decimal(0.0, 99.9, 50.0, " %", decimals=1, step=1.0)
        self.context = whole_number(1, 16_777_216, _CONTEXT, " tokens")
        self.table = _CostTableView()
        self.problem = text_label("", "failed", wrap=True)
        self.warning = text_label("", "muted", wrap=True)
        controls = FlowLayout(spacing=2 * GRID)
        for caption, control in (
            ("Method", self.method),
            ("Sparsity", self.sparsity),
            ("Context", self.context),
        ):
            if not control.accessibleName():
                control.setAccessibleName(f"{caption} of the cost")
            controls.addWidget(captioned(caption, control))
        column = vbox(self)
        heading: QLabel = text_label("Cost of a generated token", "section")
        heading.setToolTip(_EXPLANATION)
        column.addLayout(beside(heading, HelpButton("GFLOPs saved")))
        column.addLayout(controls)
        for widget in (self.problem, self.table, self.warning, text_label(_EXPLANATION, "muted", wrap=True)):
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
        self.changed.emit(self.method.currentData(), fraction(self.sparsity.value()), self.context.value())

    def show_cost(self, record: CostRecord | None, problem: str) -> None:
        """Show the cost, or why it is unknown."""
        self._record = record
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        self.table.setVisible(record is not None)
        warnings = [] if record is None else [row.warning for row in record.rows if row.warning]
        self.warning.setText(warnings[-1] if warnings else "")
        self.warning.setVisible(bool(warnings))
        if record is not None:
            self.table.show_cost(record)

    def _restyle(self) -> None:
        if self._record is not None:
            self.table.show_cost(self._record)


class _CostTableView(QTableWidget):
    """Table as high as its lines: the page scrolls instead."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Cost of a generated token by rotation")
        self.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        self.verticalHeader().hide()
        self.horizontalHeader().setHighlightSections(False)
        self.setSizeAdjustPolicy(QAbstractScrollArea.SizeAdjustPolicy.AdjustToContents)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def show_cost(self, record: CostRecord) -> None:
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
        rows = sum(self.rowHeight(row) for row in range(self.rowCount()))
        return QSize(GRID * 90, self.horizontalHeader().sizeHint().height() + rows + 4)
