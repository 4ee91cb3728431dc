"""The Results page."""

from typing import TYPE_CHECKING

from wina_app.pages.results.page import ResultsPage
from wina_app.plots.export_settings import last_choice

if TYPE_CHECKING:
    from wina_app.application import Application


def add(application: "Application") -> None:
    """Make it."""
    settings = application.workbench.settings
    last_choice.keep(settings.plot_file, lambda choice: setattr(settings, "plot_file", choice))
    view = ResultsPage(application.workbench.store, settings)
    application.results = view.controller
    application.window.add_page(view)
    application.window.preferences_changed.connect(
        lambda preferences: view.controller.plots.set_count(preferences.sparsity_count)
    )
