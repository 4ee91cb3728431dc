"""The Results page: every stored number as a table, a frontier plot and a map of layers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, Qt, QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from wina_app.controllers.results_controller import ResultsController
from wina_app.models.results_comparison import RunPair
from wina_app.models.results_frontier import ABSCISSAE, Abscissa, FrontierData, Measure
from wina_app.store_thread import StoreThread
from wina_app.theme import GRID
from wina_app.views.choice_box import ChoiceBox
from wina_app.views.controls import ElidedLabel, explain_disabled, text_label
from wina_app.views.frontier_plot import FrontierPlot
from wina_app.views.page import Page
from wina_app.views.plot_export import offer_export
from wina_app.views.results_comparison import ResultsComparison
from wina_app.views.results_layers import ResultsLayers
from wina_app.views.results_spec import ResultsSpec
from wina_app.views.row_table_view import RowTableView, ask_table_file
from wina_core.specs import RunSpec

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import LayerMap, MetricRow

_COMPARED = 1000
"""Selected rows among which two runs are looked for."""
_REST_MS = 150
"""The filter is applied once the typing hand rests this long."""


class ResultsPage(Page):
    """Shows what its controller read from the store, and emits the user's choices to it."""

    def __init__(self, store: StoreThread) -> None:
        super().__init__("results", "Results")
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Filter: words, or column:text such as method:wina")
        self.filter.setClearButtonEnabled(True)
        self.filter.setAccessibleName("Filter the table")
        self.filter.setToolTip("Words in any column, or column:text, for example method:wina task:demo")
        self.start = self.filter  # the table would take a row as current
        self._count = text_label("", "muted")
        self.filter_error = text_label("", "failed")
        self.filter_error.hide()
        self.table = self._make_table()
        self.compare = QPushButton("Compare")
        self.compare.setAccessibleName("Compare the two selected runs")
        self.compare.clicked.connect(lambda: self.controller.compare())
        self.measure, self.model, self.abscissa = ChoiceBox("Metric"), ChoiceBox("Model"), ChoiceBox("Sparsity axis")
        for key, text in ABSCISSAE.items():
            self.abscissa.addItem(text, key)
        self.direction = text_label("", "muted")
        self.frontier = FrontierPlot()
        self._readout = text_label("", "muted")
        self.layers = ResultsLayers()
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(_REST_MS)
        self.set_content(self._arrange())
        self.controller = ResultsController(store, self)
        self.table.show_table(self.controller.table)
        self.show_comparable(False)
        self._connect()

    def _make_table(self) -> RowTableView:
        table = RowTableView("Stored metrics")
        table.addAction("Export table\N{HORIZONTAL ELLIPSIS}", self._export)
        table.addAction("Compare the two selected runs", lambda: self.controller.compare())
        table.addAction("How was this computed", lambda: self.controller.explain(table.currentIndex().row()))
        return table

    def _arrange(self) -> QWidget:
        self.filter.setMinimumWidth(50 * GRID)
        self.header_actions.addWidget(self._count)
        self.header_actions.addWidget(self.filter)
        self.header_actions.addWidget(self.compare)
        upper = QWidget()
        above = QVBoxLayout(upper)
        above.setContentsMargins(2 * GRID, GRID, 2 * GRID, GRID)
        above.setSpacing(GRID)
        above.addWidget(self._build_scope())
        above.addWidget(self.filter_error)
        above.addWidget(self.table, 1)
        choices = QHBoxLayout()
        choices.setSpacing(GRID)
        for caption, box in (("Metric", self.measure), ("against", self.abscissa), ("of", self.model)):
            label = text_label(caption, "muted")
            label.setBuddy(box)
            choices.addWidget(label)
            choices.addWidget(box)
        choices.addWidget(self.direction)
        choices.addStretch(1)
        left = QWidget()
        plot = QVBoxLayout(left)
        plot.setContentsMargins(2 * GRID, GRID, GRID, GRID)
        plot.setSpacing(GRID)
        plot.addLayout(choices)
        plot.addWidget(self.frontier, 1)
        plot.addWidget(self._readout)
        right = QWidget()
        layers = QVBoxLayout(right)
        layers.setContentsMargins(GRID, GRID, 2 * GRID, GRID)
        layers.addWidget(self.layers)
        lower = QSplitter(Qt.Orientation.Horizontal)
        lower.addWidget(left)
        lower.addWidget(right)
        lower.setStretchFactor(0, 3)
        lower.setStretchFactor(1, 2)
        lower.setSizes([66 * GRID, 39 * GRID])
        lower.setChildrenCollapsible(False)
        whole = QSplitter(Qt.Orientation.Vertical)
        whole.addWidget(upper)
        whole.addWidget(lower)
        whole.setStretchFactor(0, 1)
        whole.setStretchFactor(1, 1)
        whole.setSizes([30 * GRID, 30 * GRID])
        whole.setChildrenCollapsible(False)
        return whole

    def _build_scope(self) -> QWidget:
        self.scope = ElidedLabel("section")
        self.everything = QPushButton("Show all results")
        self.everything.setAccessibleName("Show all results")
        self.everything.clicked.connect(lambda: self.controller.show_study(None))
        self._scope = QWidget()
        row = QHBoxLayout(self._scope)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        row.addWidget(self.scope, 1)
        row.addWidget(self.everything)
        self._scope.hide()
        return self._scope

    def _connect(self) -> None:
        offer_export(self, self.frontier, "frontier")
        offer_export(self, self.layers, "layers")
        control = self.controller
        self.filter.textChanged.connect(self._rest.start)
        self._rest.timeout.connect(lambda: control.set_filter(self.filter.text()))
        self.table.selectionModel().currentRowChanged.connect(self._row_changed)
        self.table.selectionModel().selectionChanged.connect(self._selection_changed)
        self.measure.activated.connect(lambda: control.choose_measure(self.measure.currentData()))
        self.model.activated.connect(lambda: control.choose_model(self.model.currentData()))
        self.abscissa.activated.connect(lambda: control.choose_abscissa(self.abscissa.currentData()))
        self.frontier.readout_changed.connect(self._readout.setText)
        self.primary_triggered.connect(self._export)
        self.empty_triggered.connect(lambda: self.crumb_clicked.emit("evaluate"))

    # ---- what the controller asks for ----------------------------------------------------------------------------

    def show_count(self, shown: int, stored: int) -> None:
        """How many rows there are; none stored is the empty state."""
        if stored == 0 and not self.is_empty:
            self.show_empty(
                "No results yet",
                "Every finished task lands here as a row the moment it is done: filter and sort them, plot a metric "
                "against sparsity, look at what each layer dropped, and export table and plots.",
                "Evaluate a plan",
            )
        elif stored and self.is_empty:
            self.show_content()
        for widget in (self.filter, self._count, self.compare):
            widget.setVisible(stored > 0)
        self.set_primary("Export table", enabled=shown > 0, reason="There are no rows to export")
        self._count.setText(f"{shown:,} rows" if shown == stored else f"{shown:,} of {stored:,} rows")

    def show_scope(self, title: str) -> None:
        """Say to which study the page is narrowed; empty for none."""
        self.scope.setText(f"Study: {title}")
        self._scope.setVisible(bool(title))

    def show_filter_error(self, text: str) -> None:
        """What is wrong with the filter; empty when nothing is."""
        self.filter_error.setText(text)
        self.filter_error.setVisible(bool(text))
        self.filter.setProperty("state", "invalid" if text else "")
        self.filter.style().polish(self.filter)

    def show_choices(
        self, measures: Sequence[Measure], measure: Measure | None, models: dict[str, str], model: str
    ) -> None:
        """Offer what the frontier can show, and mark what it does."""
        self.measure.fill([(each.title, each) for each in measures], measure)
        better = measure.higher_is_better if measure else None
        self.direction.setText(
            {True: "\N{UPWARDS ARROW} better", False: "\N{DOWNWARDS ARROW} better", None: ""}[better]
        )
        self.model.fill([(name, key) for key, name in models.items()], model)

    def show_frontier(self, data: FrontierData | None, abscissa: Abscissa) -> None:
        """Draw the frontier; None when no row passes the filter."""
        self.frontier.show_frontier(data, abscissa)

    def showEvent(self, event: QShowEvent) -> None:
        """Draw what came while another page was shown."""
        super().showEvent(event)
        self.controller.set_visible(True)

    def hideEvent(self, event: QHideEvent) -> None:
        """Leave the frontier alone while another page is shown."""
        super().hideEvent(event)
        self.controller.set_visible(False)

    def show_layers(self, row: "MetricRow | None", layers: "LayerMap | None") -> None:
        """Draw the measured sparsity of a run."""
        self.layers.show_layers(row, layers)

    def show_comparable(self, comparable: bool) -> None:
        """Say whether the selected rows are of two runs."""
        explain_disabled(
            self.compare,
            enabled=comparable,
            reason="Select rows of two runs, the second with Ctrl held",
            explanation="The difference on every task that both have, with its interval and p",
        )

    def show_comparison(self, pair: RunPair) -> None:
        """Show two runs side by side."""
        ResultsComparison(pair, self).open()

    def show_spec(self, spec: RunSpec) -> None:
        """Show how a number was computed."""
        ResultsSpec(spec, self).open()

    # ---- what the user does --------------------------------------------------------------------------------------

    def _row_changed(self, current: QModelIndex) -> None:
        self.controller.select(current.row())

    def _selection_changed(self) -> None:
        ranges = self.table.selectionModel().selection()
        few = sum(part.height() for part in ranges) <= _COMPARED  # all rows of a large table are not of two runs
        rows = sorted({row for part in ranges for row in range(part.top(), part.bottom() + 1)}) if few else []
        self.controller.select_rows(rows)

    def _export(self) -> None:
        path = ask_table_file(self, "results")
        if path is not None:
            self.controller.export(path)
