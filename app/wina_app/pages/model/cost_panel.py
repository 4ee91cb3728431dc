"""Cost of a generated token on the Model page: its table, its bars, and the panel with their choices."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QRectF, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QAbstractScrollArea,
    QHeaderView,
    QLabel,
    QSizePolicy,
    QTableWidget,
    QTableWidgetItem,
    QToolTip,
    QWidget,
)

from wina_app.style.icons import icon
from wina_app.style.number_format import fraction, percent
from wina_app.style.theme import GRID, HALF, font, notifier, tokens
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import beside, captioned, text_label
from wina_app.widgets.fields import choices, decimal, whole_number
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.plain_text import plain_tip
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
_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))

PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "weights": ("gated weights", ("projections",)),
    "low rank": ("low-rank part", ("low rank",)),
    "head": ("head and embedding", ("head", "embedding")),
    "cache": ("KV cache", ("attention",)),
    "shortcuts": ("rotation's shortcuts", ("shortcuts",)),
    "rest": ("gating, norms and biases", ("gating", "norms", "elementwise")),
}
"""Pieces of a bar: name, and the terms of the cost that they sum up."""
_EDGE = 4
"""Pixels between a bar and its number."""

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


def bytes_text(value: float, dense: CostRow) -> str:
    """Return bytes in the unit of the table, which is the dense model's."""
    scale, unit = _scale(dense.net_bytes)
    return f"{_number(value / scale)} {unit}B"


def _line(row: CostRow, flops: float, bytes_: float) -> tuple[str, ...]:
    sparse = row.rotation != "dense"
    return (
        NAMES[row.rotation],
        _number(row.gated_flops / flops),
        percent(row.gated_flops_saving) if sparse else "",
        _number(row.gated_bytes / bytes_),
        percent(row.gated_bytes_saving) if sparse else "",
        _number(row.net_flops / flops),
        percent(row.net_flops_saving) if sparse else "",
        _number(row.net_bytes / bytes_),
        percent(row.net_bytes_saving) if sparse else "",
        percent(row.net_sparsity) if sparse else "",
        _number(row.bits_read),
        _number(row.bytes_held / bytes_),
    )


def _tip(row: CostRow, flops: float, flops_unit: str, bytes_: float, bytes_unit: str) -> str:
    terms = [
        f"{term.name}: {_number(term.flops / flops)} {flops_unit}FLOPs, {_number(term.bytes / bytes_)} {bytes_unit}B"
        for term in row.terms
        if term.flops or term.bytes
    ]
    bits = (
        f"{_number(row.bits_read)} bits read and {_number(row.bits_held)} held per gated weight; "
        f"{_number(row.bytes_held / bytes_)} {bytes_unit}B held in all, KV cache included"
    )
    return "\n".join([*filter(None, (row.warning,)), bits, *terms])


def _scale(value: float) -> tuple[float, str]:
    return next(((scale, prefix) for scale, prefix in _SCALES if value >= scale), (1.0, ""))


def _number(value: float) -> str:
    # Three digits; the bounds are where rounding adds one.
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


@dataclass(frozen=True)
class Stack:
    """One bar: its pieces in bytes, by the keys of PARTS, without empty ones."""

    name: str
    pieces: dict[str, float]
    dense: CostRow
    """The dense model's cost, which gives the unit."""

    @property
    def total(self) -> float:
        return sum(self.pieces.values())

    @property
    def number(self) -> str:
        return bytes_text(self.total, self.dense)

    @property
    def text(self) -> str:
        texts = [f"{PARTS[key][0]} {bytes_text(value, self.dense)}" for key, value in self.pieces.items()]
        return f"{self.name}: {self.number} ({', '.join(texts)})"


def stacks(record: CostRecord) -> tuple[Stack, ...]:
    return tuple(Stack(NAMES[row.rotation], _pieces(row), record.rows[0]) for row in record.rows)


def _pieces(row: CostRow) -> dict[str, float]:
    bytes_ = {term.name: term.bytes for term in row.terms}
    sums = {key: sum(bytes_.get(name, 0.0) for name in names) for key, (_, names) in PARTS.items()}
    return {key: value for key, value in sums.items() if value > 0}


class CostBars(QWidget):
    """Stacked bars on one scale that begins at zero, above the legend of their pieces."""

    def __init__(self) -> None:
        super().__init__()
        self._stacks: tuple[Stack, ...] = ()
        self._name = "Bytes read for a generated token, by part"
        self.setAccessibleName(self._name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        notifier().changed.connect(self.updateGeometry)

    def show_stacks(self, bars: Sequence[Stack]) -> None:
        self._stacks = tuple(bars)
        self.setAccessibleDescription("; ".join(stack.text for stack in bars))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(GRID * 60, len(self._stacks) * self._row_height() + self._legend_height(self.width()))

    def minimumSizeHint(self) -> QSize:
        return QSize(GRID * 40, self.sizeHint().height())  # the full height: nothing scrolls

    def event(self, event: QEvent) -> bool:
        """Show the pieces of the bar under the mouse."""
        if isinstance(event, QHelpEvent):
            row = event.pos().y() // self._row_height()
            if row < len(self._stacks):
                QToolTip.showText(event.globalPos(), plain_tip(self._stacks[row].text), self)
                return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002 - Qt's signature
        if not self._stacks:
            return
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setFont(font(tabular=True))
            self._paint_bars(painter)
            self._paint_legend(painter)

    def _paint_bars(self, painter: QPainter) -> None:
        t, metrics, height = tokens(), QFontMetrics(painter.font()), self._row_height()
        names = max(metrics.horizontalAdvance(stack.name) for stack in self._stacks) + GRID * 2
        numbers = max(metrics.horizontalAdvance(stack.number) for stack in self._stacks) + GRID
        scale = max(GRID * 6, self.width() - names - numbers) / max(stack.total for stack in self._stacks)
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        for row, stack in enumerate(self._stacks):
            top, x = row * height, float(names)
            painter.setPen(QColor(t.text))
            painter.drawText(QRectF(0, top, names, height), left, stack.name)
            painter.setPen(Qt.PenStyle.NoPen)
            for key, value in stack.pieces.items():
                painter.setBrush(_colour(key))
                painter.drawRect(QRectF(x, top + HALF, value * scale, height - GRID))
                x += value * scale
            painter.setPen(QColor(t.text))
            painter.drawText(QRectF(x + _EDGE, top, numbers, height), left, stack.number)

    def _paint_legend(self, painter: QPainter) -> None:
        painter.setFont(font("small"))
        top = len(self._stacks) * self._row_height()
        height = QFontMetrics(painter.font()).height() + HALF
        for key, x, line in self._legend(self.width()):
            y = top + line * height
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(_colour(key))
            painter.drawRect(QRectF(x, y + height / 2 - HALF, GRID, GRID))
            painter.setPen(QColor(tokens().muted))
            painter.drawText(
                QRectF(x + GRID + HALF, y, self.width(), height), Qt.AlignmentFlag.AlignVCenter, PARTS[key][0]
            )

    def _legend(self, width: int) -> list[tuple[str, int, int]]:
        """Return key, left edge and line of each entry, as many in a line as fit."""
        metrics, used = QFontMetrics(font("small")), {key for stack in self._stacks for key in stack.pieces}
        entries, x, line = [], 0, 0
        for key in PARTS:
            if key in used:
                needed = GRID + HALF + metrics.horizontalAdvance(PARTS[key][0])
                if x and x + needed > width:
                    x, line = 0, line + 1
                entries.append((key, x, line))
                x += needed + 2 * GRID
        return entries

    def _legend_height(self, width: int) -> int:
        lines = 1 + max((line for _, _, line in self._legend(width)), default=-1)
        return lines * (QFontMetrics(font("small")).height() + HALF)

    def _row_height(self) -> int:
        return QFontMetrics(font()).height() + GRID


def _colour(key: str) -> QColor:
    t = tokens()
    soft = QColor(t.accent)
    soft.setAlphaF(0.5)
    return {
        "weights": QColor(t.accent),
        "low rank": soft,
        "head": QColor(t.dense),
        "cache": QColor(t.done),
        "shortcuts": QColor(t.warning),
        "rest": QColor(t.border),
    }[key]


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
        self.bars = CostBars()
        self._bars_heading = text_label("Bytes read for a token, by part", "section")
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
