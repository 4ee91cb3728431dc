"""Assembly of the Playground page."""

from collections.abc import Callable

from wina_app.pages.playground.controller import PlaygroundController
from wina_app.pages.playground.page import PlaygroundPage
from wina_app.services.workbench import Workbench
from wina_app.widgets.base_page import Page


def wire(workbench: Workbench, add_page: Callable[[Page], None]) -> PlaygroundController:
    """Make the page, add it to the window, and return its controller."""
    view = PlaygroundPage()
    control = PlaygroundController(workbench, view)
    view.changed.connect(control.change)
    view.visible_changed.connect(control.set_visible)
    view.generate_requested.connect(control.generate)
    view.stop_requested.connect(control.stop)
    add_page(view)
    return control
