"""Tables of the gate inspector: figures of each method, and agreement of pairs."""

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableWidget, QTableWidgetItem

from wina_app.pages.gate_inspector.view_state import PlannedGate
from wina_app.plots.colour_maps import ColourScale, percent
from wina_app.style.number_format import percent as share
from wina_app.style.theme import GRID, font, notifier, scaled, text_on
from wina_app.widgets.controls import method_swatch
from wina_app.widgets.plain_text import plain_tip
from wina_core.analysis.gate_views import agreement

_ROW = 3 * GRID
_NAMES = 14 * GRID
"""Most pixels of the methods' names; tooltips have longer ones."""


class _FittedTable(QTableWidget):
    """Read-only table as high as its rows."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setProperty("role", "matrix")
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        self.setCornerButtonEnabled(False)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self.horizontalHeader().setSectionsClickable(False)
        notifier().changed.connect(self.restyle)
        self.restyle()

    def restyle(self) -> None:
        """Apply the current fonts and colours."""
        self.setFont(font("small", tabular=True))
        for header in (self.horizontalHeader(), self.verticalHeader()):
            header.setFont(font("small"))
        self._fit()

    def _fit(self) -> None:
        frame, row = 2 * self.frameWidth(), scaled(_ROW)
        self.verticalHeader().setDefaultSectionSize(row)
        self.setFixedHeight(self.horizontalHeader().sizeHint().height() + self.rowCount() * row + frame + 2)


class GateFigures(_FittedTable):
    """Table with a row per method; the current one colours the plots."""

    method_chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__("Inputs kept by each method")
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.verticalHeader().hide()
        self.setColumnCount(4)
        self.setHorizontalHeaderLabels(["method", "kept %", "energy %", "rel. error"])
        tips = (
            "The selected method colours the plots",
            "Inputs kept per token, %, the mean over the tokens",
            "Share of the kept inputs in the sum of (|x| × column norm)², %, over all tokens",
            "Output error of this matrix, relative, over all tokens: ‖y − Wx‖ / ‖Wx‖",
        )
        for column, tip in enumerate(tips):
            _set_tip(self.horizontalHeaderItem(column), tip)
        for column in (1, 2, 3):  # beside the names, which take the remaining width
            self.horizontalHeader().setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        self.currentCellChanged.connect(lambda row, *_: self.method_chosen.emit(row) if row >= 0 else None)

    def show_gates(self, gates: Sequence[PlannedGate], current: int) -> None:
        """Show the figures, and mark the current method."""
        with QSignalBlocker(self):
            self.setRowCount(len(gates))
            for row, planned in enumerate(gates):
                for column, (text, tip) in enumerate(_cells(planned)):
                    item = QTableWidgetItem(text)
                    item.setToolTip(plain_tip(tip))
                    if column:
                        item.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
                    else:
                        item.setIcon(method_swatch(planned.method.name))
                    self.setItem(row, column, item)
            self.setCurrentCell(current, 0)
        self._fit()


def _cells(planned: PlannedGate) -> list[tuple[str, str]]:
    """Return (text, tooltip) of each column."""
    name, inputs = planned.method.label, planned.mask.shape[1]
    outdated = f"Mask for a target of {share(planned.target)}; inspect again for the plan's"
    error = f"Error for a target of {share(planned.gate.target)}; inspect again for the plan's"
    rank = planned.gate.decision.rank
    note = f"{name} at {share(planned.target)}"
    note += f", with a low-rank part of rank {rank}" if rank and not planned.outdated else ""
    kept_text = f"{planned.kept:,.1f} of {inputs:,} inputs"
    return [
        (f"{name}*" if planned.outdated else name, outdated if planned.outdated else note),
        (f"{100 * planned.kept / inputs:.1f}", kept_text),
        (f"{100 * planned.energy:.2f}", ""),
        ("–" if planned.error is None else f"{planned.error:.3g}", error if planned.error is None else ""),
    ]


class GateAgreement(_FittedTable):
    """Agreement of pairs of methods: above the diagonal the share decided alike, below it the share of inputs kept by
    both among those kept by either."""

    _gates: tuple[PlannedGate, ...] = ()  # of the class: the base's __init__ calls `restyle`

    def __init__(self) -> None:
        super().__init__("Agreement between methods")
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)

    def show_gates(self, gates: Sequence[PlannedGate]) -> None:
        """Show the agreement of each pair."""
        self._gates = tuple(gates)
        names = [planned.method.label for planned in gates]
        self.setRowCount(len(names))
        self.setColumnCount(len(names))
        self.setVerticalHeaderLabels([f"{index} {name}" for index, name in enumerate(names, start=1)])
        self.setHorizontalHeaderLabels([str(index) for index in range(1, len(names) + 1)])
        for index, name in enumerate(names):
            for item in (self.horizontalHeaderItem(index), self.verticalHeaderItem(index)):
                _set_tip(item, name)
        self._fill()
        self._fit()

    def restyle(self) -> None:
        """Apply the current fonts and colours."""
        super().restyle()
        self.verticalHeader().setMaximumWidth(scaled(_NAMES))
        self.verticalHeader().setTextElideMode(Qt.TextElideMode.ElideRight)
        self._fill()

    def _fill(self) -> None:
        if not self._gates:
            return
        alike, jaccard = agreement([planned.mask for planned in self._gates])
        scale = ColourScale("agreement", "%", float(min(alike.min(), jaccard.min())), 1.0, percent)
        for row in range(len(alike)):
            for column in range(len(alike)):
                self.setItem(row, column, self._item(row, column, alike, jaccard, scale))

    def _item(
        self, row: int, column: int, alike: np.ndarray, jaccard: np.ndarray, scale: ColourScale
    ) -> QTableWidgetItem:
        if row == column:
            item = QTableWidgetItem("·")
            item.setFlags(Qt.ItemFlag.NoItemFlags)
        else:
            above = column > row
            value = float((alike if above else jaccard)[row, column])
            item = QTableWidgetItem(f"{100 * value:.3g}")
            item.setBackground(scale.colour(value))
            item.setForeground(QColor(text_on(scale.colour(value))))
            share, a, b = f"{100 * value:.2f}", self._gates[row].method.label, self._gates[column].method.label
            if above:
                tip = f"{a} and {b} decide alike on {share} % of the inputs"
            else:
                tip = f"{a} and {b} both keep {share} % of what either keeps (Jaccard)"
            item.setToolTip(plain_tip(tip))
        item.setTextAlignment(Qt.AlignmentFlag.AlignCenter)
        return item


def _set_tip(item: QTableWidgetItem | None, text: str) -> None:
    if item is not None:
        item.setToolTip(plain_tip(text))
