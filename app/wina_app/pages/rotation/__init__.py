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
    view.choice_changed.connect(lambda: control.choose(view.fields()))
    view.rotate_requested.connect(control.rotate)
    view.export_requested.connect(control.rotate)
    view.gguf_requested.connect(control.gguf.export)
    view.cancel_requested.connect(control.cancel)
    add_page(view)
    return control
