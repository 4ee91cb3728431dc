"""The Rotation page."""

from typing import TYPE_CHECKING

from wina_app.pages.rotation.controller import RotationController
from wina_app.pages.rotation.page import RotationPage

if TYPE_CHECKING:
    from wina_app.application import Application


def add(application: "Application") -> None:
    """Make it."""
    view = RotationPage()
    control = application.rotation = RotationController(application.workbench, view)
    view.choice_changed.connect(lambda: control.choose(view.fields()))
    view.rotate_requested.connect(control.rotate)
    view.export_requested.connect(control.rotate)
    view.cancel_requested.connect(control.cancel)
    application.window.add_page(view)
