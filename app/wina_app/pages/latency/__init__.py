"""Sweep products and decoding by backend, shape and sparsity."""

from collections.abc import Callable

from wina_app.pages.latency.controller import LatencyController
from wina_app.pages.latency.page import LatencyPage
from wina_app.pages.latency.worth import WorthController
from wina_app.services.workbench import Workbench
from wina_app.widgets.base_page import Page


def wire(workbench: Workbench, add_page: Callable[[Page], None]) -> LatencyController:
    """Make the page, add it to the window, and return its controller."""
    view = LatencyPage()
    control = LatencyController(workbench, view)
    worth = WorthController(workbench, view.worth, view)
    worth.setParent(control)
    view.worth.table.show_table(worth.table)
    view.worth.measure_requested.connect(worth.measure)
    view.visible_changed.connect(worth.reading.set_visible)
    add_page(view)
    return control
