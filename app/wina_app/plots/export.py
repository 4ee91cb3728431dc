"""Saving what a plot shows: as pixels, vectors, or a program with its data; each plot offers it in its context menu."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QMenu, QWidget

from wina_app.plots.colour_maps import lookup_table
from wina_app.plots.export_settings import SCREEN_DPI, PlotFile, last_choice
from wina_app.plots.export_sheet import image_of_figure, pdf_of, png_of, svg_of
from wina_app.plots.figure import Figure, MapPanel, is_empty, recoloured
from wina_app.plots.matplotlib_script import data_of, script_of
from wina_app.style.palette import LIGHT, Tokens
from wina_app.style.theme import appearance, tokens
from wina_app.style.translation import tr
from wina_app.widgets.base_page import Page
from wina_core.errors import WinaError
from wina_core.files.tables import write_atomically

CLIPBOARD_SCALE = 3.0
"""Pixels of a copied image per logical pixel of the screen: print quality at the size it is shown."""
_STEPS_OF_MAP = 16
"""Colours by which a program knows a colour map."""
_NEUTRAL = ("text", "muted", "dense", "accent", "border", "surface")
"""Colours that lines may have and that are others in another appearance."""


def offer_export(page: Page, widget: QWidget, name: str, keys: str) -> None:
    """Let a plot or heatmap be exported as `name` from its context menu and by a command of its page."""
    add_menu(page, widget, name)
    page.add_command(
        tr("Export the plot: {name}…", name=name),
        lambda: ask_and_save(page, widget.figure, name),
        keys,
        tip=tr("As image, vectors, or a script with its data"),
    )


def add_menu(page: Page, widget: QWidget, name: str) -> None:
    """Give a plot or heatmap a context menu: its own actions, copy as image, export as `name`."""

    def show(where: QPoint) -> None:
        menu = QMenu(widget)
        menu.addActions(widget.actions())
        menu.addAction(tr("Copy image"), lambda: copy_image(widget.figure(), widget.size()))
        menu.addAction(tr("Export plot…"), lambda: ask_and_save(page, widget.figure, name))
        menu.exec(widget.mapToGlobal(where))
        menu.deleteLater()

    widget.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    widget.customContextMenuRequested.connect(show)


def ask_and_save(page: Page, figure_of: Callable[[], Figure], name: str) -> None:
    """Ask how and where, in a window beside the page; what goes wrong, and what went right, is shown on the page."""
    from wina_app.plots.export_dialog import PlotExportDialog

    figure = figure_of()
    if is_empty(figure):
        page.show_error(tr("There is nothing in this plot to export yet."))
        return
    dialog = PlotExportDialog(figure, name, last_choice, page)
    dialog.saved.connect(lambda path: page.show_notice(tr("Saved the plot in {path}.", path=path)))
    dialog.show()


def copy_image(figure: Figure, size: QSize) -> None:
    """Put the figure, where there is any, on the clipboard as large as it is shown, in the window's colours."""
    if is_empty(figure):
        return
    QGuiApplication.clipboard().setImage(image_of_figure(figure, size, CLIPBOARD_SCALE))


def save_figure(figure: Figure, path: Path, choice: PlotFile) -> None:
    """Write a figure as chosen; a script's data go beside it, under its name with .csv. Raises WinaError."""
    draw_figure(figure, path, choice)()


def draw_figure(figure: Figure, path: Path, choice: PlotFile) -> Callable[[], None]:
    """Draw a figure as chosen; what this returns writes it, on any thread, and raises WinaError."""
    size = QSize(*choice.logical)
    figure, look = _for_paper(figure) if choice.light else (figure, tokens())
    with appearance(look):
        if choice.format == "png":
            image = image_of_figure(figure, size, choice.dpi / SCREEN_DPI)
            return lambda: write_atomically(path, png_of(image, choice.dpi))
        if choice.format == "svg":
            return partial(write_atomically, path, svg_of(figure, size))
        if choice.format == "pdf":
            return partial(write_atomically, path, pdf_of(figure, size, choice.width, choice.height))
        return partial(save_script, figure, path, choice)


def save_script(figure: Figure, path: Path, choice: PlotFile) -> None:
    """Write the data and then the program that draws them. Raises WinaError, also for data that are no script's."""
    data = path.with_suffix(".csv")
    if data == path:
        raise WinaError(
            tr('A script cannot be saved as "{name}", which is the name of its data; end it in .py.', name=path.name)
        )
    if data.exists() and not path.exists():  # nobody was asked whether to replace it
        raise WinaError(tr('"{name}", where the data would be, is there already; choose another name.', name=data.name))
    write_atomically(data, data_of(figure).encode())
    script = script_of(figure, data.name, choice.width, choice.height, _colours(figure))
    write_atomically(path, script.encode())


def preview(figure: Figure, choice: PlotFile, widest: QSize) -> QImage:
    """What would be saved, at most so large."""
    width, height = choice.logical
    scale = min(widest.width() / width, widest.height() / height)
    figure, look = _for_paper(figure) if choice.light else (figure, tokens())
    with appearance(look):
        return image_of_figure(figure, QSize(width, height), scale)


def _for_paper(figure: Figure) -> tuple[Figure, Tokens]:
    shown = tokens()
    return recoloured(figure, {getattr(shown, name): getattr(LIGHT, name) for name in _NEUTRAL}), LIGHT


def _colours(figure: Figure) -> dict[str, list[str]]:
    names = {panel.colours for panel in figure if isinstance(panel, MapPanel)}
    return {
        name: [
            "#{:02x}{:02x}{:02x}".format(*lookup_table(name)[round(step * 255 / (_STEPS_OF_MAP - 1))])
            for step in range(_STEPS_OF_MAP)
        ]
        for name in names
    }
