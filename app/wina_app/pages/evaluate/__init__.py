"""Launch lm-eval tasks and fidelity measurements."""

from collections.abc import Callable

from wina_app.pages.evaluate.controller import EvaluateController
from wina_app.pages.evaluate.page import EvaluatePage
from wina_app.services.workbench import Workbench
from wina_app.widgets.base_page import Page


def wire(workbench: Workbench, add_page: Callable[[Page], None], show_run: Callable[[str], None]) -> EvaluateController:
    """Make the page, add it to the window, and return its controller; `show_run` shows the run with a hash."""
    view = EvaluatePage()
    control = EvaluateController(workbench, view)
    view.run_chosen.connect(show_run)
    add_page(view)
    return control
