"""The whole window with something on every page, for tests that walk through all of it."""

import time
from collections.abc import Callable, Iterator

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QDialog, QWidget
from wina_app.application import Application
from wina_app.plots.export import PlotExportDialog
from wina_app.plots.figure import is_empty, last_choice
from wina_app.window.main_window import MainWindow

from tests.wina_app.pages.gate_inspector.samples import answer
from tests.wina_app.stored_runs import SOURCE, record_calibration, record_demo_study, summary
from tests.wina_app.timed_points import timed
from wina_core.jobs import Done, Result
from wina_core.store import Store

_PATIENCE_SECONDS = 300


def furnish(application: Application) -> None:
    """Load the demo's summary, store runs, a calibration and timed points, and wait until the pages show them."""
    window, workspace = application.window, application.workbench.workspace

    def fill(store: Store) -> None:
        record_demo_study(store)
        record_calibration(store, workspace.method, workspace.rotation)
        for method, sparsity in (("dense", 0.0), ("wina", 0.5)):
            store.record_latency(timed(method=method, sparsity=sparsity))

    workspace.set_model(SOURCE, summary())
    window.pages["model"].show_summary("demo", SOURCE, summary())
    application.workbench.store.write(fill, window.show_failure)
    latency, results = window.pages["latency"], window.pages["results"]
    for page in ("latency", "results"):
        window.show_page(page)
        settle()
    _wait_for(lambda: latency.table.model().rowCount() == 2)
    _wait_for(lambda: results.table.model().rowCount() > 0 and not results.is_empty)
    _inspect_a_gate(application)


def _inspect_a_gate(application: Application) -> None:
    page = application.window.pages["sparsity"]
    application.window.show_page("sparsity")
    page.heatmap.set_selection(page.heatmap.selection.click((2, 3)))
    settle()
    application.window.docks["inspector"].show()
    application.gate.inspect()
    _wait_for(lambda: bool(list(application.workbench.jobs)))
    (entry,) = application.workbench.jobs
    for event in (Result(job_id=entry.id, value=answer(entry.job)), Done(job_id=entry.id)):
        application.workbench._on_event(event)
    _wait_for(lambda: page.inspector.figures.rowCount() > 0)


def _wait_for(condition: Callable[[], bool]) -> None:
    """Unwatched by the stall watchdog: filling a database in one go keeps the interpreter from the main thread."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "the pages do not show what is stored"
        settle()
        time.sleep(0.01)


def settle() -> None:
    """Lay out and paint all that waits for it."""
    for _ in range(4):  # what is laid out anew may ask for another layout
        QApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest)
        QApplication.processEvents()


def every_page(window: MainWindow) -> Iterator[str]:
    """Show one after the other; gives their keys."""
    for key in window.pages:
        window.show_page(key)
        settle()
        yield key


def every_side(window: MainWindow) -> Iterator[str]:
    """Without a dock at the right, with the inspector and with the guide."""
    sides = [window.docks[key] for key in ("inspector", "help")]
    for shown in (None, *(side for side in sides if side.toggleViewAction().isEnabled())):
        window.show_page("sparsity")  # a dock that a page withholds would come back with the next page
        for dock in sides:
            dock.setVisible(dock is shown)
        if shown is not None:
            shown.raise_()
        yield shown.objectName() if shown is not None else "pages alone"


def every_dialog(application: Application) -> Iterator[QWidget]:
    """Show one after the other, beside the Results page, whose plot can be exported."""
    window = application.window
    results = window.pages["results"]
    window.show_page("results")
    _wait_for(lambda: not is_empty(results.plots.frontier.plot.figure()))
    for opening in (
        window.open_settings,
        PlotExportDialog(results.plots.frontier.plot.figure(), "frontier", last_choice, results).show,
    ):
        opening()
        settle()
        (dialog,) = (found for found in window.findChildren(QDialog) if found.isVisible())
        yield dialog
        dialog.close()
        settle()
