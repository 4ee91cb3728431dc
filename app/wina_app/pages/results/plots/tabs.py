"""The plots half of the Results page: a tab for each plot of the table's rows and selected runs."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QPushButton, QStackedWidget, QTabBar, QWidget

from wina_app.pages.results.comparison_panel import ResultsComparison
from wina_app.pages.results.plots.controller import PLOTS, Plot, ResultsPlotsController
from wina_app.pages.results.plots.frontier import FrontierData, FrontierMeasure, ParetoData
from wina_app.pages.results.plots.frontier_plot import FrontierPanel
from wina_app.pages.results.plots.layers import AllocationPanel, ResultsLayers
from wina_app.pages.results.plots.task_bars import TaskBarsPanel
from wina_app.plots.data_plot import DataPlot
from wina_app.plots.export import add_menu, ask_and_save
from wina_app.style.theme import GRID, HALF, notifier, scaled
from wina_app.widgets.base_page import Page, with_shortcut
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.combo_box import ComboBox
from wina_app.widgets.controls import explain_disabled
from wina_app.widgets.scroll_page import ScrollPage
from wina_app.widgets.table_view import ask_table_file
from wina_core.analysis.results.measured import SparsityKind
from wina_core.errors import WinaError
from wina_core.report.drawing import Figure

_FIRST_KEY = 4
"""Ctrl+Alt+4 shows the first of the plots, and so on."""
_NO_PAPER = "The paper's numbers can be drawn where a study that repeats it is shown, from the Studies page"


class ResultsPlots(QWidget):
    """View of the plots' controller."""

    error_shown = Signal(str)
    plot_requested = Signal()
    """The user chose a plot, perhaps the one that is chosen already."""

    def __init__(self) -> None:
        super().__init__()
        self._selected: Sequence[str] = ()
        self.frontier, self.tasks = FrontierPanel(), TaskBarsPanel()
        self.layers, self.allocation, self.compare = ResultsLayers(), AllocationPanel(), ResultsComparison()
        titles = {
            "frontier": ("Frontier", "A metric against sparsity, bytes, memory, speed or bits", self.frontier),
            "tasks": ("Tasks", "Every task's metric at one sparsity", self.tasks),
            "layers": ("Layers", "What the selected runs dropped in each layer", self.layers),
            "allocation": ("Allocation", "Target and measured sparsity over depth", self.allocation),
            "compare": ("Compare", "The selected runs side by side, with significance", self.compare),
        }
        self.paper = QCheckBox("Paper's numbers")
        self.paper.setAccessibleName("Draw the paper's numbers")
        self.export = QPushButton("Export…")
        self.export.setAccessibleName("Export what is shown here")
        self.tabs = QTabBar()
        self.tabs.setAccessibleName("Plots")
        self.tabs.setDrawBase(False)
        self.tabs.setUsesScrollButtons(False)
        self._stack = QStackedWidget()
        for plot in PLOTS:
            title, tip, panel = titles[plot]
            self.tabs.setTabToolTip(self.tabs.addTab(title), tip)
            self._stack.addWidget(ScrollPage(panel))
        self.tabs.tabBarClicked.connect(lambda _: self.plot_requested.emit())
        self.tabs.currentChanged.connect(self._stack.setCurrentIndex)
        self.tabs.currentChanged.connect(self._follow_tab)
        header = hbox(None, self.tabs, STRETCH, self.paper, self.export, margins=(GRID, HALF, 2 * GRID, 0))
        vbox(self, header, (self._stack, 1), spacing=0)
        self.show_paper(named=False, checked=True)
        notifier().changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self._stack.setMinimumHeight(scaled(26 * GRID))

    def connect_to(self, controller: ResultsPlotsController) -> None:
        frontier, tasks = self.frontier, self.tasks
        self.tabs.currentChanged.connect(lambda at: controller.show(PLOTS[at]))
        self.paper.toggled.connect(controller.overlay_paper)
        choices: tuple[tuple[ComboBox, Callable[[Any], None]], ...] = (
            (frontier.measure, controller.choose_measure),
            (frontier.x_axis, controller.choose_x_axis),
            (frontier.model, controller.choose_model),
            (tasks.model, controller.choose_model),
            (tasks.measure, controller.choose_bar_metric),
            (tasks.sparsity, controller.choose_sparsity),
        )
        for box, choose in choices:
            # `currentIndexChanged` would take a filled box for a choice of the user's.
            box.activated.connect(lambda _, box=box, choose=choose: choose(box.currentData()))
        for plot in (frontier.plot, tasks.plot, self.allocation.plot):
            plot.keys_chosen.connect(controller.choose_runs)
        frontier.pareto.keys_chosen.connect(controller.open_point)
        self.compare.reference_chosen.connect(controller.choose_reference)

    def offer_on(self, page: Page) -> None:
        """Give the page a command for each plot and its actions, and show errors there."""
        for number, plot in enumerate(PLOTS):
            title = self.tabs.tabText(number).lower()
            text, keys = f"Show the {title} plot", f"Ctrl+Alt+{_FIRST_KEY + number}"
            page.add_command(text, partial(self.show_plot, plot), keys, self.tabs.tabToolTip(number))
            self.tabs.setTabToolTip(number, with_shortcut(self.tabs.tabToolTip(number), keys))
        page.add_command("Export the plot…", lambda: self._export(page), "Ctrl+P")
        page.add_command("Show or hide the published numbers", self.paper.click, "Ctrl+Shift+P")
        self.export.clicked.connect(lambda: self._export(page))
        self.export.setToolTip(with_shortcut("As image, vectors, or a script with its data", "Ctrl+P"))
        self.compare.export_requested.connect(lambda: self._export_comparison(page))
        self.error_shown.connect(page.show_error)
        for drawn, name in (
            (self.frontier.plot, "frontier"),
            (self.frontier.pareto, "frontier"),
            (self.tasks.plot, "tasks"),
            (self.layers, "layers"),
            (self.allocation.plot, "allocation"),
        ):
            add_menu(page, drawn, name)

    def _export(self, page: Page) -> None:
        if self.plot == "compare":
            self._export_comparison(page)
        else:
            ask_and_save(page, self.figure, self.plot)

    def _export_comparison(self, page: Page) -> None:
        if self.compare.comparison is None:
            page.show_error(f"There is no comparison to export yet. {self.compare.remark.text()}")
            return
        path = ask_table_file(page, "comparison")
        if path is None:
            return
        try:
            self.compare.write(path)
        except WinaError as error:
            page.show_error(str(error))
        else:
            page.show_saved(path)

    # ---- what is shown now ---------------------------------------------------------------------------------------

    @property
    def plot(self) -> Plot:
        return PLOTS[self.tabs.currentIndex()]

    def show_plot(self, plot: Plot) -> None:
        self.tabs.setCurrentIndex(PLOTS.index(plot))
        self.plot_requested.emit()

    def figure(self) -> Figure:
        """Return the shown plot; nothing for the comparison, which is a table."""
        figures: dict[Plot, Callable[[], Figure]] = {
            "frontier": self.frontier.current.figure,
            "tasks": self.tasks.plot.figure,
            "layers": self.layers.figure,
            "allocation": self.allocation.plot.figure,
            "compare": lambda: (),
        }
        return figures[self.plot]()

    # ---- what the controller asks for ----------------------------------------------------------------------------

    def show_measures(
        self, measures: Sequence[FrontierMeasure], measure: FrontierMeasure | None, models: dict[str, str], model: str
    ) -> None:
        """Offer metrics and models, and mark those that are shown."""
        for box in (self.frontier.model, self.tasks.model):
            box.fill([(name, key) for key, name in models.items()], model)
        if self.plot == "frontier":  # the bars' choices come without the frontier's metrics
            self.frontier.show_measures(measures, measure)

    def show_frontier(self, data: FrontierData | None, x_axis: SparsityKind) -> None:
        """Draw the frontier; None when no row passes the filter."""
        self.frontier.show_frontier(data, x_axis)
        self._highlight()

    def show_pareto(self, data: ParetoData | None, x_axis: str) -> None:
        """Draw the Pareto front over a cost; None when no row passes the filter."""
        self.frontier.show_pareto(data, x_axis)
        self._highlight()

    def show_selected(self, runs: Sequence[str]) -> None:
        """Highlight runs."""
        self._selected = runs
        self._highlight()

    def _follow_tab(self) -> None:
        self.paper.setVisible(self.plot in ("frontier", "tasks"))  # the others have none of the paper's numbers
        self._highlight()

    def _highlight(self) -> None:
        # In the shown plot alone: drawing the others would take as long.
        plots: dict[Plot, DataPlot] = {"frontier": self.frontier.current, "tasks": self.tasks.plot}
        if (shown := plots.get(self.plot)) is not None:
            shown.highlight(self._selected)

    def show_paper(self, named: bool, checked: bool) -> None:
        """Enable the switch of the published numbers if there are any (`named`), and set it to `checked`."""
        explain_disabled(self.paper, enabled=named, reason=_NO_PAPER, explanation="Hollow markers")
        # Only a click is a choice of the user's.
        blocked = self.paper.blockSignals(True)
        self.paper.setChecked(named and checked)
        self.paper.blockSignals(blocked)

    def show_error(self, text: str) -> None:
        self.error_shown.emit(text)
