"""The Evaluate page."""

from typing import TYPE_CHECKING

from wina_app.pages.evaluate.controller import EvaluateController
from wina_app.pages.evaluate.page import EvaluatePage

if TYPE_CHECKING:
    from wina_app.application import Application


def add(application: "Application") -> None:
    """Make it."""
    view = EvaluatePage()
    control = application.evaluate = EvaluateController(application.workbench, view)
    view.changed.connect(control.change)
    view.visible_changed.connect(control.set_visible)
    view.evaluate_requested.connect(control.evaluate)
    view.save_requested.connect(control.save_study)
    view.search_requested.connect(control.search)
    application.choose_plan = view.choose_plan
    application.window.add_page(view)
