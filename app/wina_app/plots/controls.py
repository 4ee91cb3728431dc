"""The control strip of a plot: logarithmic axes, series on and off, reset, export."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QColor, QIcon, QPixmap
from PySide6.QtWidgets import QFrame, QListWidget, QListWidgetItem, QToolButton, QWidget

from wina_app.style.icons import icon
from wina_app.style.theme import GRID, HALF, font, restyle_when_shown, scaled, tokens
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.controls import explain_disabled, push_button

if TYPE_CHECKING:
    from wina_app.plots.trace_plot import TracePlot

_PROBLEMS = {
    "bars": "Bars begin at 0, which a logarithmic axis cannot show",
    "none above 0": "A logarithmic axis needs values above 0",
}


class PlotControls(QWidget):
    """A row of small buttons above the top right corner of a plot's area."""

    def __init__(self, plot: "TracePlot") -> None:
        super().__init__(plot)
        self._plot, self._right = plot, 0
        self.setAccessibleName("Controls of the plot")
        self.logs = {
            side: self._button(
                f"Logarithmic {side} axis",
                f"Logarithmic {side} axis; values of 0 or below are left out",
                text=f"log {side}",
            )
            for side in plot.log_axes
        }
        for side, button in self.logs.items():
            button.setCheckable(True)
            button.clicked.connect(lambda on, side=side: plot.set_log(side, on))
        self.series = self._button("Series", "Switch series on and off", "plot-series")
        self.series.clicked.connect(self._open_series)
        self.reset = self._button("Reset zoom", "Reset zoom (or double-click the plot)", "plot-reset")
        self.reset.clicked.connect(lambda: plot.reset_zoom())
        self.export = self._button("Export plot…", "Export as image, vectors, or a script", "plot-export")
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
        some = f"{len(off)} of {len(names)} series are off"
        self.series.setToolTip(some if off else "Switch series on and off")
        for button in (self.series, self.reset, self.export):
            warned = bool(off) and button is self.series
            # Icons are drawn anew only for another colour: `follow` runs with every change of the plot.
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


_MOST = 16
"""Rows shown without scrolling."""


class SeriesList(QFrame):
    """A popup with a check mark for each series, which stays open until a click beside it or Esc."""

    changed = Signal(object)
    """Frozenset of the names that are off."""

    def __init__(self, series: Sequence[tuple[str, QColor]], hidden: Collection[str], parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("role", "overlay")
        self.list = QListWidget()
        self.list.setAccessibleName("Series of the plot")
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        for name, colour in series:
            item = QListWidgetItem(_swatch(colour), name)
            item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsUserCheckable | Qt.ItemFlag.ItemIsSelectable)
            item.setCheckState(Qt.CheckState.Unchecked if name in hidden else Qt.CheckState.Checked)
            self.list.addItem(item)
        self.list.setCurrentRow(0)
        self.list.itemChanged.connect(self._emit)
        self.all = push_button("Show all", lambda: self._check(everything=True))
        self.only = push_button("Only this", lambda: self._check(everything=False), tip="Switch all others off")
        vbox(self, self.list, hbox(None, self.all, self.only, STRETCH), margins=(HALF, HALF, HALF, HALF))
        rows = min(len(series), _MOST)
        height = rows * max(self.list.sizeHintForRow(0), 1) + 2 * HALF
        width = self.list.sizeHintForColumn(0) + self.list.verticalScrollBar().sizeHint().width() + 2 * GRID
        self.list.setFixedHeight(height)
        self.list.setMinimumWidth(min(width, scaled(60 * GRID)))

    def open_below(self, button: QWidget) -> None:
        """Open with the right edge below a button's, within the screen."""
        self.adjustSize()
        corner = button.mapToGlobal(QPoint(button.width() - self.width(), button.height() + HALF))
        room = button.screen().availableGeometry()
        x = min(max(corner.x(), room.left()), max(room.right() - self.width(), room.left()))
        y = min(max(corner.y(), room.top()), max(room.bottom() - self.height(), room.top()))
        self.move(x, y)
        self.show()
        self.list.setFocus(Qt.FocusReason.PopupFocusReason)

    def _check(self, *, everything: bool) -> None:
        blocked = self.list.blockSignals(True)  # one change of the plot, not one for each row
        for row in range(self.list.count()):
            on = everything or row == self.list.currentRow()
            self.list.item(row).setCheckState(Qt.CheckState.Checked if on else Qt.CheckState.Unchecked)
        self.list.blockSignals(blocked)
        self._emit()

    def _emit(self) -> None:
        items = (self.list.item(row) for row in range(self.list.count()))
        self.changed.emit(frozenset(item.text() for item in items if item.checkState() == Qt.CheckState.Unchecked))


def _swatch(colour: QColor) -> QIcon:
    swatch = QPixmap(GRID + HALF, GRID + HALF)
    swatch.fill(colour)
    icon = QIcon(swatch)
    icon.addPixmap(swatch, QIcon.Mode.Selected)
    return icon
