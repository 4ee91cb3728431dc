"""The Studies page."""

from typing import TYPE_CHECKING

from wina_app.pages.studies.controller import StudiesController
from wina_app.pages.studies.page import StudiesPage

if TYPE_CHECKING:
    from wina_app.application import Application


def add(application: "Application") -> None:
    """Make it."""
    view = StudiesPage()
    control = application.studies = StudiesController(application.workbench, view)
    view.visible_changed.connect(control.set_visible)
    view.changed.connect(control.change)
    view.study_chosen.connect(control.select)
    view.file_opened.connect(control.open_file)
    view.forget_requested.connect(control.forget)
    view.role_mapped.connect(control.map_role)
    view.data_chosen.connect(control.choose_data)
    view.estimate_requested.connect(control.estimate)
    view.run_requested.connect(control.run)
    view.pause_requested.connect(control.pause)
    view.resume_requested.connect(control.resume)
    view.cancel_requested.connect(control.cancel)
    view.results_requested.connect(control.show_results)
    view.report_requested.connect(control.report)
    control.results_requested.connect(application.show_study)
    application.window.add_page(view)
