"""Export of a plot or heatmap: its context menu, the dialog that asks for a file, and drawing on another thread."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

from PySide6.QtCore import QObject, QPoint, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QImage, QPixmap
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QLabel,
    QMenu,
    QWidget,
)
from shiboken6 import Shiboken

from wina_app.plots.controls import PlotControls
from wina_app.plots.figure import (
    FORMATS,
    SCREEN_DPI,
    LastChoice,
    PlotFile,
    image_of,
    is_empty,
    last_choice,
    preview,
    save_figure,
    style_of,
)
from wina_app.services.threads import Checks
from wina_app.style.theme import GRID, scaled, tokens
from wina_app.widgets.base_page import Page
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.combo_box import ComboBox
from wina_app.widgets.controls import explain_disabled, labelled, text_label
from wina_app.widgets.fields import decimal, whole_number
from wina_app.widgets.file_dialogs import save_as
from wina_core.report.drawing import Figure

CLIPBOARD_SCALE = 3
"""Pixels of a copied image per logical pixel of the screen: print quality at the size it is shown."""


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
        menu.addAction("Copy image", lambda: copy_image(widget, drawn.figure()))
        menu.addAction("Export plot…", export)
        menu.exec(widget.mapToGlobal(where))
        menu.deleteLater()

    widget.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    widget.customContextMenuRequested.connect(show)
    controls = getattr(widget, "controls", None)
    if isinstance(controls, PlotControls):
        controls.offer_export(export)
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


def copy_image(widget: QWidget, figure: Figure) -> None:
    """Put a figure on the clipboard as large as its widget, in the window's colours, unless it is empty."""
    if is_empty(figure):
        return
    style = style_of(tokens(), widget.width() / SCREEN_DPI, widget.height() / SCREEN_DPI)
    draw = partial(image_of, figure, style, "png", CLIPBOARD_SCALE * SCREEN_DPI)
    draw_in_background(widget, draw, lambda png, _: QGuiApplication.clipboard().setImage(QImage.fromData(png)))


_PREVIEW = QSize(52 * GRID, 40 * GRID)
_REST_MS = 120
"""Pause after the last change before the preview is drawn."""


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
        self.picture = QLabel()
        self.picture.setAccessibleName("Preview")
        self.picture.setFixedSize(_PREVIEW)
        self.picture.setAlignment(Qt.AlignmentFlag.AlignCenter)
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
        form = vbox(
            None,
            labelled("Format", self.format),
            labelled("Width (mm)", self.width_box),
            labelled("Height (mm)", self.height_box),
            labelled("Resolution (dots per inch)", self.dpi),
            self.light,
            self.pixels,
            STRETCH,
        )
        row = hbox(None, form, self.picture, spacing=2 * GRID)
        vbox(self, row, self.trouble, buttons, margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID))
        self._drawing = self._outdated = False
        self._rest = QTimer(self, singleShot=True, interval=_REST_MS)
        self._rest.timeout.connect(self._draw)
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
        self._rest.start()

    def _draw(self) -> None:
        """Draw the preview, one at a time; the first takes a second, for loading matplotlib."""
        self._outdated = self._drawing
        if self._drawing:
            return
        self._drawing = True
        room = _PREVIEW * self.devicePixelRatioF()
        draw = partial(preview, self._figure, self.choice(), room.width(), room.height(), tokens())
        draw_in_background(self, draw, self._show_preview)

    def _show_preview(self, image: bytes | None, error: str) -> None:
        self._drawing = False
        picture = QPixmap()
        picture.loadFromData(image or b"")
        self.trouble.setText(error)
        self.trouble.setVisible(bool(error))
        picture.setDevicePixelRatio(self.devicePixelRatioF())
        self.picture.setPixmap(picture)
        if self._outdated:
            self._draw()

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

        def on_ended(_: object, error: str) -> None:
            self.save.setEnabled(True)
            self.trouble.setText(error)
            self.trouble.setVisible(bool(error))
            if not error:
                self._last.choice = choice
                self.saved.emit(path)
                self.close()

        draw_in_background(self, partial(save_figure, self._figure, path, choice, tokens()), on_ended)


def draw_in_background(owner: QObject, draw: Callable[[], object], then: Callable[[Any, str], None]) -> None:
    """Draw on another thread, then call `then` on this one with the result, or with the text of an error.

    Nothing is called where `owner` was deleted meanwhile.
    """

    def end(result: Any, error: str) -> None:
        # The dialog may have been closed while its figure was drawn.
        if Shiboken.isValid(owner):
            then(result, error)

    _checks().ask(draw, lambda result: end(result, ""), lambda error: end(None, error))


@cache
def _checks() -> Checks:
    """Return threads for drawings, which outlive the dialogs."""
    return Checks()
