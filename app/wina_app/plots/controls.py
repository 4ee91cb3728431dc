"""The control strip of a plot: logarithmic axes, series on and off, reset, export."""

from collections.abc import Callable
from typing import Protocol

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QToolButton, QWidget

from wina_app.plots.series_list import SeriesList
from wina_app.style.icons import icon
from wina_app.style.theme import GRID, font, restyle_when_shown, scaled, tokens
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import explain_disabled

_PROBLEMS = {
    "bars": tr("Bars begin at 0, which a logarithmic axis cannot show"),
    "none above 0": tr("A logarithmic axis needs values above 0"),
}


class Controlled(Protocol):
    """The plot as its controls see it."""

    @property
    def series(self) -> tuple[tuple[str, QColor], ...]:
        """Name and colour of each series that can be switched off."""

    @property
    def hidden(self) -> frozenset[str]:
        """Names of the series that are off."""

    @property
    def log_axes(self) -> str:
        """Letters of the axes that can be logarithmic."""

    def is_log(self, side: str) -> bool:
        """Return True where a logarithmic axis is chosen."""

    def log_problem(self, side: str) -> str:
        """Return the fault that forbids a logarithmic axis, or ""."""

    def set_log(self, side: str, on: bool) -> None:
        """Choose a logarithmic or a linear axis."""

    def hide_series(self, names: frozenset[str]) -> None:
        """Switch these series off and all others on."""

    def reset_zoom(self) -> None:
        """Show everything again."""


class PlotControls(QWidget):
    """A row of small buttons above the top right corner of a plot's area."""

    def __init__(self, plot: Controlled, parent: QWidget) -> None:
        super().__init__(parent)
        self._plot, self._right = plot, 0
        self.setAccessibleName(tr("Controls of the plot"))
        self.logs = {
            side: self._button(
                tr("Logarithmic {side} axis", side=side),
                tr("Logarithmic {side} axis; values of 0 or below are left out", side=side),
                text=tr("log {side}", side=side),
            )
            for side in plot.log_axes
        }
        for side, button in self.logs.items():
            button.setCheckable(True)
            button.clicked.connect(lambda on, side=side: plot.set_log(side, on))
        self.series = self._button(tr("Series"), tr("Switch series on and off"), "plot-series")
        self.series.clicked.connect(self._open_series)
        self.reset = self._button(tr("Reset zoom"), tr("Reset zoom (or double-click the plot)"), "plot-reset")
        self.reset.clicked.connect(lambda: plot.reset_zoom())
        self.export = self._button(tr("Export plot…"), tr("Export as image, vectors, or a script"), "plot-export")
        self.export.hide()
        self._tips = {side: button.toolTip() for side, button in self.logs.items()}
        hbox(self, *self.logs.values(), self.series, self.reset, self.export, spacing=0)
        restyle_when_shown(self, self.restyle)
        self.restyle()

    def _button(self, name: str, tip: str, drawing: str = "", text: str = "") -> QToolButton:
        button = QToolButton()
        button.setAccessibleName(name.rstrip("…"))
        button.setToolTip(tip)
        button.setProperty("role", "plot")
        button.setProperty("drawing", drawing)
        button.setText(text)
        button.setCursor(Qt.CursorShape.ArrowCursor)
        return button

    def offer_export(self, export: Callable[[], object]) -> None:
        """Show the button that exports the plot."""
        self.export.clicked.connect(lambda: export())
        self.export.show()
        self.end_at(self._right)

    def restyle(self) -> None:
        """Follow the appearance."""
        side = scaled(2 * GRID)
        for button in self.findChildren(QToolButton):
            button.setFont(font("small"))
            button.setIconSize(QSize(side, side))
        self.follow()

    def follow(self) -> None:
        """Follow the plot's choices and series."""
        for side, button in self.logs.items():
            problem = self._plot.log_problem(side)
            explain_disabled(
                button, enabled=not problem, reason=_PROBLEMS.get(problem, ""), explanation=self._tips[side]
            )
            button.setChecked(self._plot.is_log(side))
        names = [name for name, _ in self._plot.series]
        off = [name for name in names if name in self._plot.hidden]
        self.series.setVisible(len(names) > 1 or bool(off))
        some = tr("{off} of {count} series are off", off=len(off), count=len(names))
        self.series.setToolTip(some if off else tr("Switch series on and off"))
        for button in (self.series, self.reset, self.export):
            warned = bool(off) and button is self.series
            colour = tokens().accent if warned else tokens().muted
            if button.property("colour") != colour:
                button.setProperty("colour", colour)
                button.setIcon(icon(button.property("drawing"), colour))
        self.end_at(self._right)

    def end_at(self, right: int) -> None:
        """Move the right end to a place in the plot, within it."""
        self._right = right
        self.adjustSize()
        self.move(max(0, right - self.width()), 0)

    def _open_series(self) -> None:
        opened = SeriesList(self._plot.series, self._plot.hidden, self)
        opened.changed.connect(self._plot.hide_series)
        opened.open_below(self.series)
