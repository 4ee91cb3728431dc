"""Assembly of the Playground page."""

from collections.abc import Callable

from wina_app.pages.playground.controller import PlaygroundController
from wina_app.pages.playground.history_controller import HistoryController
from wina_app.pages.playground.page import PlaygroundPage
from wina_app.services.workbench import Workbench
from wina_app.widgets.base_page import Page


def wire(workbench: Workbench, add_page: Callable[[Page], None]) -> PlaygroundController:
    """Make the page, add it to the window, and return its controller."""
    view = PlaygroundPage()
    control = PlaygroundController(workbench, view)
    history = HistoryController(workbench, view.history)
    history.setParent(control)
    history.shown.connect(control.show_stored)
    history.used.connect(control.use)
    history.failed.connect(view.show_error)
    view.history_visible.connect(history.set_visible)
    view.history.search_changed.connect(history.search)
    view.history.more_requested.connect(history.show_more)
    view.history.chosen.connect(history.show)
    view.history.use_requested.connect(history.use)
    view.history.delete_requested.connect(history.delete)
    view.changed.connect(control.change)
    view.visible_changed.connect(control.set_visible)
    view.generate_requested.connect(control.generate)
    view.stop_requested.connect(control.stop)
    add_page(view)
    return control
