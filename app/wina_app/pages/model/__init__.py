"""Open a model, read its architecture and its cost."""

from collections.abc import Callable

from wina_app.pages.model.controller import ModelController
from wina_app.pages.model.page import ModelPage
from wina_app.services.workbench import Workbench
from wina_app.widgets.base_page import Page


def wire(
    workbench: Workbench,
    add_page: Callable[[Page], None],
    open_results: Callable[[], None],
) -> ModelController:
    """Make the page, add it to the window, and return its controller."""
    view = ModelPage()
    control = ModelController(workbench, view)
    view.begin.results.button.clicked.connect(open_results)
    add_page(view)
    return control
