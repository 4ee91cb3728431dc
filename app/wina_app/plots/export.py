"""Export of a plot or heatmap: its context menu, the dialog that asks for a file, and drawing on another thread."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QCheckBox, QDialog, QDialogButtonBox, QMenu, QWidget
from shiboken6 import Shiboken

from wina_app.plots.figure import FORMATS, LastChoice, PlotFile, is_empty, last_choice, save_figure
from wina_app.services.threads import Checks
from wina_app.style.theme import GRID, scaled, tokens
from wina_app.widgets.base_page import Page
from wina_app.widgets.boxes import vbox
from wina_app.widgets.combo_box import ComboBox
from wina_app.widgets.controls import explain_disabled, labelled, text_label
from wina_app.widgets.fields import decimal, whole_number
from wina_app.widgets.file_dialogs import save_as
from wina_app.widgets.form_memory import Remembering
from wina_core.report.drawing import Figure


class Drawn(Protocol):
    """A widget that gives what it shows as a figure."""

    def figure(self) -> Figure:
        """Return what is shown."""


def offer_export(page: Page, widget: Drawn, name: str, keys: str) -> None:
    """Let a plot or heatmap be exported as `name` from its context menu and by a command of its page."""
    add_menu(page, widget, name)
    page.add_command(
        f"Export the plot: {name}…",
        lambda: ask_and_save(page, widget.figure, name),
        keys,
        tip="As image, vectors, or a script with its data",
    )


def add_menu(page: Page, drawn: Drawn, name: str) -> None:
    """Give a plot or heatmap a context menu: its own actions, copy as image, export as `name`."""
    assert isinstance(drawn, QWidget)
    widget: QWidget = drawn

    def export() -> None:
        ask_and_save(page, drawn.figure, name)

    def show(where: QPoint) -> None:
        menu = QMenu(widget)
        menu.addActions(widget.actions())
        menu.addAction("Copy image", lambda: QGuiApplication.clipboard().setPixmap(widget.grab()))
        menu.addAction("Export plot…", export)
        menu.exec(widget.mapToGlobal(where))
        menu.deleteLater()

    widget.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    widget.customContextMenuRequested.connect(show)
    if isinstance(widget, Remembering):
        page.remembered[f"plot {name}"] = widget


def ask_and_save(page: Page, figure_of: Callable[[], Figure], name: str) -> None:
    """Ask for format and file in a dialog beside the page, which shows the outcome."""
    figure = figure_of()
    if is_empty(figure):
        page.show_error("There is nothing in this plot to export yet.")
        return
    dialog = PlotExportDialog(figure, name, last_choice, page)
    dialog.saved.connect(page.show_saved)
    dialog.show()


class PlotExportDialog(QDialog):
    """A dialog beside the window, not modal. Saves the figure as it was when the dialog was opened."""

    saved = Signal(object)
    """The path that was written."""

    def __init__(self, figure: Figure, name: str, last: LastChoice, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Export plot")
        self._figure, self._name, self._last = figure, name, last
        self._make_controls(last.choice)
        self.pixels = text_label("", "muted", wrap=True)
        self.trouble = text_label("", "failed", wrap=True)
        self.trouble.hide()
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self.save = buttons.addButton("Save…", QDialogButtonBox.ButtonRole.ActionRole)
        self.save.setAccessibleName("Choose a file and save the plot")
        self.save.setDefault(True)
        self.save.clicked.connect(self._ask)
        buttons.rejected.connect(self.close)
        self.format.setMinimumWidth(scaled(26 * GRID))
        vbox(
            self,
            labelled("Format", self.format),
            labelled("Width (mm)", self.width_box),
            labelled("Height (mm)", self.height_box),
            labelled("Resolution (dots per inch)", self.dpi),
            self.light,
            self.pixels,
            self.trouble,
            buttons,
            margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID),
        )
        for changed in (
            self.format.currentIndexChanged, self.width_box.valueChanged, self.height_box.valueChanged,
            self.dpi.valueChanged, self.light.toggled,
        ):  # fmt: skip
            changed.connect(self._follow)
        self._follow()

    def _make_controls(self, choice: PlotFile) -> None:
        self.format = ComboBox("Format")
        self.format.fill([(name, key) for key, (name, _) in FORMATS.items()], choice.format)
        for at, (_, explanation) in enumerate(FORMATS.values()):
            self.format.setItemData(at, explanation, Qt.ItemDataRole.ToolTipRole)
        self.width_box, self.height_box = (
            decimal(20.0, 1000.0, value, decimals=1, step=10.0) for value in (choice.width, choice.height)
        )
        self.dpi = whole_number(36, 1200, choice.dpi, step=50)
        self.light = QCheckBox("Light, for print")
        self.light.setToolTip("Dark words on white, however the window looks")
        self.light.setChecked(choice.light)

    def choice(self) -> PlotFile:
        return PlotFile(
            format=self.format.currentData(),
            width=self.width_box.value(),
            height=self.height_box.value(),
            dpi=self.dpi.value(),
            light=self.light.isChecked(),
        )

    def _follow(self) -> None:
        choice = self.choice()
        image = choice.format == "png"
        explain_disabled(self.dpi, enabled=image, reason="Vectors have no pixels: they are sharp at any size")
        width, height = choice.pixels
        size = f"{width:,} x {height:,} pixels"
        self.pixels.setText(size if image else FORMATS[choice.format][1])

    def _ask(self) -> None:
        choice = self.choice()
        kind = f"{FORMATS[choice.format][0]} (*.{choice.format})"
        path = save_as(self, "Export plot", f"{self._name}.{choice.format}", kind)
        if path is not None:
            self.save_to(path)

    def save_to(self, path: Path) -> None:
        """Draw and write the figure on another thread."""
        choice = self.choice()
        self.save.setEnabled(False)

        def on_ended(error: str) -> None:
            if not Shiboken.isValid(self):  # closed while its figure was drawn
                return
            self.save.setEnabled(True)
            self.trouble.setText(error)
            self.trouble.setVisible(bool(error))
            if not error:
                self._last.choice = choice
                self.saved.emit(path)
                self.close()

        draw = partial(save_figure, self._figure, path, choice, tokens())
        _checks().ask(draw, lambda _: on_ended(""), on_ended)


@cache
def _checks() -> Checks:
    """Return threads for drawings, which outlive the dialogs."""
    return Checks()
