"""The Playground: one prompt completed by the dense and a sparse model side by side; its assembly."""

from collections.abc import Callable

from wina_app.pages.playground.controller import PlaygroundController
from wina_app.pages.playground.page import PlaygroundPage
from wina_app.services.workbench import Workbench
from wina_app.widgets.base_page import Page


def wire(
    workbench: Workbench,
    add_page: Callable[[Page], None],
    show_log: Callable[[str], object] = lambda _: None,
    show_server: Callable[[str, str], object] = lambda *_: None,
) -> PlaygroundController:
    """Make the page, add it to the window, and return its controller.

    `show_log` shows the log of a job; `show_server` a server's text and tooltip in the status line.
    """
    view = PlaygroundPage(workbench, show_log, show_server)
    control = PlaygroundController(workbench, view)
    add_page(view)
    return control
