"""The context menu and the command that export a plot or heatmap."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QMenu, QWidget

from wina_app.plots.background import draw_in_background
from wina_app.plots.controls import PlotControls
from wina_app.plots.export_files import image_of, style_of
from wina_app.plots.export_settings import SCREEN_DPI, last_choice
from wina_app.plots.figure import is_empty
from wina_app.style.theme import tokens
from wina_app.style.translation import tr
from wina_app.widgets.base_page import Page
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
        tr("Export the plot: {name}…", name=name),
        lambda: ask_and_save(page, widget.figure, name),
        keys,
        tip=tr("As image, vectors, or a script with its data"),
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
        menu.addAction(tr("Copy image"), lambda: copy_image(widget, drawn.figure()))
        menu.addAction(tr("Export plot…"), export)
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
    from wina_app.plots.export_dialog import PlotExportDialog

    figure = figure_of()
    if is_empty(figure):
        page.show_error(tr("There is nothing in this plot to export yet."))
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
