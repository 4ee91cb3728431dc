"""Heights of what each page is for, in a window of 1280 x 720 with the docks collapsed:
`python -m tests.wina_app.heights` prints a line for each page, and ends with 1 if one of them is below half."""

import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QRect
from PySide6.QtWidgets import QAbstractItemView, QApplication, QPlainTextEdit, QWidget
from wina_app.application import Application
from wina_app.heatmap.heatmap import Heatmap
from wina_app.pages.model.bar_list import BarList
from wina_app.pages.model.cost_panel import CostPanel
from wina_app.plots.data_plot import DataPlot
from wina_app.services.threads import EngineThread

from tests.wina_app.fakes import FakeClient
from tests.wina_app.stored_runs import PROJECTIONS
from tests.wina_app.tour import every_page, furnish, settle
from wina_core.records import LayerRecord, RotationReport

SIZE = (1280, 720)
AIM = 0.5
"""Of the window's height."""
MAIN: dict[str, tuple[type[QWidget], ...]] = {
    "model": (BarList, CostPanel, QAbstractItemView),
    "rotation": (Heatmap, DataPlot),
    "sparsity": (Heatmap,),
    "evaluate": (QAbstractItemView,),
    "latency": (DataPlot,),
    "playground": (QPlainTextEdit,),
    "results": (QAbstractItemView, DataPlot),
    "studies": (QAbstractItemView,),
}
"""A page's main widget is the largest of these."""


class Height(NamedTuple):
    """Visible height of a page's widget."""

    page: str
    widget: str
    pixels: int
    share: float
    """Of the window's height."""


def heights(application: Application) -> Iterator[Height]:
    """Yield each page's main plot or table, and on Results both."""
    window = application.window
    for side in ("inspector", "help"):  # the others are a line each
        window.docks[side].hide()
    for key in every_page(window):
        for kinds in [(kind,) for kind in MAIN[key]] if key == "results" else [MAIN[key]]:
            if key == "results" and kinds == (DataPlot,):
                window.pages[key].plots.show_plot("frontier")
                settle()
            found = [widget for kind in kinds for widget in window.pages[key].findChildren(kind) if widget.isVisible()]
            main = max(found, key=_area, default=None)
            pixels = 0 if main is None else _seen(main).height()
            name = "nothing" if main is None else f"{type(main).__name__} {main.accessibleName()}".strip()
            yield Height(key, name, pixels, pixels / window.height())


def _seen(widget: QWidget) -> QRect:
    """Return the part that no parent cuts off; other widgets may lie over it."""
    seen, around = widget.rect(), widget.parentWidget()
    while around is not None:
        seen &= QRect(widget.mapFrom(around, around.rect().topLeft()), around.size())
        around = around.parentWidget()
    return seen


def _area(widget: QWidget) -> int:
    return _seen(widget).width() * _seen(widget).height()


def _show_rotation(application: Application) -> None:
    workspace = application.workbench.workspace
    residuals = (
        LayerRecord(layer=layer, projection=projection, metric="off_diagonal_energy", value=layer / 10)
        for layer, projection in product(range(8), PROJECTIONS)
    )
    report = RotationReport(
        rotation=workspace.rotation.content_hash(),
        logits_deviation=3e-7,
        residuals=tuple(residuals),
        shortcut_parameters=0,
        seconds=2.0,
    )
    workspace.set_rotation(workspace.rotation, report)


def main() -> int:
    """Print the table; return 1 if a page's main widget is lower than half of the window."""
    app = QApplication([])
    app.setQuitOnLastWindowClosed(False)
    with tempfile.TemporaryDirectory() as home:
        os.environ["WINA_HOME"] = home
        application = Application(app, engine=EngineThread(FakeClient))
        application.start(page="model")
        application.window.resize(*SIZE)  # the screen, in which it has its place at first, is none
        furnish(application)
        _show_rotation(application)
        rows = list(heights(application))
        for row in rows:
            print(f"{row.page:11}{row.pixels:5} px {row.share:6.0%}  {row.widget}")
        application.window.confirm_quit = lambda: "cancel"
        application.window.close()
        while not application.window.has_stopped:
            settle()
    low = sorted({row.page for row in rows if row.share < AIM})
    print(f"below {AIM:.0%}: {', '.join(low) or 'none'}")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
