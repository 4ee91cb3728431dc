"""Table and plots of the Results page: one above the other, or one alone."""

from functools import partial
from typing import Literal, cast, get_args

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QSplitter

from wina_app.pages.results.plots.tabs import ResultsPlots
from wina_app.pages.results.table_panel import ResultsList
from wina_app.style.theme import GRID, scaled
from wina_app.style.translation import tr
from wina_app.widgets.base_page import Page, with_shortcut
from wina_app.widgets.segmented_control import SegmentedControl

Half = Literal["table", "both", "plots"]
HALVES: tuple[Half, ...] = get_args(Half)
_ROOM = 100 * GRID
"""Height of a window, 800 pixels at text size 100 %, from which on there is room for both."""
_PLOT = 61 * GRID
"""Height of the plots beside a table: the plot itself then has 360 pixels."""
_TABLE = 28 * GRID
"""Height of the table beside the plots in a low window: four rows with the headings."""
_KEYS = ("Ctrl+Alt+J", "Ctrl+Alt+K", "Ctrl+Alt+L")


class TableAndPlots(QSplitter):
    """Table above plots. In a low window one of them is shown; the tabs of the plots always are."""

    def __init__(self, table: ResultsList, plots: ResultsPlots) -> None:
        super().__init__(Qt.Orientation.Vertical)
        self._table, self._plots = table, plots
        self.chosen: Half | None = None
        """None until the user chooses or the window is shown."""
        self._last_sizes: list[int] = []
        tips = (
            tr("The table alone; a click on the tab of a plot shows it"),
            tr("Table and plot, one above the other"),
            tr("The plot alone"),
        )
        texts = (tr("Table"), tr("Both"), tr("Plot"))
        choices = zip(HALVES, texts, map(with_shortcut, tips, _KEYS), strict=True)
        self.control = SegmentedControl(tr("Show"), tuple(choices))
        self.control.chosen.connect(lambda half: self.choose(cast(Half, half)))
        plots.plot_requested.connect(self._show_plots)
        self.addWidget(table)
        self.addWidget(plots)
        self.setStretchFactor(0, 1)
        self.setStretchFactor(1, 1)
        self.setChildrenCollapsible(False)

    def offer_on(self, page: Page) -> None:
        """Give the page a command for each choice."""
        texts = (tr("Show the table alone"), tr("Show table and plot"), tr("Show the plot alone"))
        for half, text, keys in zip(HALVES, texts, _KEYS, strict=True):
            page.add_command(text, partial(self.choose, half), keys)

    def choose(self, half: Half) -> None:
        """Show one half, or both with the sizes that they had."""
        if self.chosen == "both":
            self._last_sizes = self.sizes()
        self.chosen = half
        self.control.choose(half)
        self._table.setVisible(half != "plots")
        self._plots.fold(half == "table")
        self._plots.setMaximumHeight(self._plots.sizeHint().height() if half == "table" else 16_777_215)
        if half == "both":
            self.setSizes(self._last_sizes or self._first_sizes())

    @property
    def sizes_of_both(self) -> list[int]:
        """Heights of both where they are shown together; empty if they never were."""
        return self.sizes() if self.chosen == "both" else self._last_sizes

    def restore(self, half: object, sizes: object) -> None:
        """Choose what was chosen in an earlier window, if that makes sense."""
        if isinstance(sizes, list) and len(sizes) == 2 and all(isinstance(each, int) and each > 0 for each in sizes):
            self._last_sizes = sizes
        if half in HALVES:
            self.choose(half)

    def showEvent(self, event: QShowEvent) -> None:
        """Choose what there is room for, unless the user has chosen."""
        super().showEvent(event)
        if self.chosen is None:
            self.choose("both" if self.window().height() >= scaled(_ROOM) else "table")

    def _show_plots(self) -> None:
        """Show what the user asks for, beside the table if there is room."""
        if self.chosen == "table":
            self.choose("both" if self.window().height() >= scaled(_ROOM) else "plots")

    def _first_sizes(self) -> list[int]:
        plots = max(self.height() // 2, min(scaled(_PLOT), self.height() - scaled(_TABLE)))
        return [max(self.height() - plots, 1), plots]
