"""Assembly of the Results page."""

from collections.abc import Callable

from PySide6.QtCore import SignalInstance

from wina_app.pages.results.controller import ResultsController
from wina_app.pages.results.page import ResultsPage
from wina_app.plots.export_settings import last_choice
from wina_app.services.workbench import Workbench
from wina_app.widgets.base_page import Page


def wire(
    workbench: Workbench, add_page: Callable[[Page], None], preferences_changed: SignalInstance
) -> ResultsController:
    """Make the page, add it to the window, and return its controller."""
    settings = workbench.settings
    last_choice.keep(settings.plot_file, lambda choice: setattr(settings, "plot_file", choice))
    view = ResultsPage(workbench.store, settings)
    control = view.controller
    preferences_changed.connect(lambda preferences: control.plots.set_count(preferences.sparsity_count))
    add_page(view)
    return control
