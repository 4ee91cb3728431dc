"""Choose, measure and export a rotation."""

from collections.abc import Callable

from wina_app.pages.rotation.controller import RotationController
from wina_app.pages.rotation.page import RotationPage
from wina_app.services.workbench import Workbench
from wina_app.widgets.base_page import Page


def wire(workbench: Workbench, add_page: Callable[[Page], None]) -> RotationController:
    """Make the page, add it to the window, and return its controller."""
    view = RotationPage()
    control = RotationController(workbench, view)
    add_page(view)
    return control
