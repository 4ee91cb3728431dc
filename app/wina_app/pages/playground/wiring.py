"""The Playground page."""

from typing import TYPE_CHECKING

from wina_app.pages.playground.controller import PlaygroundController
from wina_app.pages.playground.page import PlaygroundPage

if TYPE_CHECKING:
    from wina_app.application import Application


def add(application: "Application") -> None:
    """Make it."""
    view = PlaygroundPage()
    control = application.playground = PlaygroundController(application.workbench, view)
    view.changed.connect(control.change)
    view.visible_changed.connect(control.set_visible)
    view.generate_requested.connect(control.generate)
    view.stop_requested.connect(control.stop)
    application.window.add_page(view)
