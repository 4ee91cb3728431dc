"""The Model page."""

from typing import TYPE_CHECKING

from wina_app.pages.model.controller import ModelController
from wina_app.pages.model.page import ModelPage

if TYPE_CHECKING:
    from wina_app.application import Application


def add(application: "Application") -> None:
    """Make it."""
    view = ModelPage()
    control = application.model = ModelController(application.workbench, view)
    view.open_requested.connect(control.open)
    view.cancel_requested.connect(control.cancel)
    view.forget_requested.connect(control.forget)
    view.cost_requested.connect(control.price)
    view.begin.results_requested.connect(application.open_results)
    application.window.add_page(view)
