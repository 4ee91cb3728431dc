"""The Studies page: a gallery of studies to launch, estimate and report; its assembly."""

from collections.abc import Callable

from wina_app.pages.studies.controller import StudiesController
from wina_app.pages.studies.page import StudiesPage
from wina_app.services.hosted_jobs import ArraySubmission
from wina_app.services.workbench import Workbench
from wina_app.widgets.base_page import Page
from wina_core.specs.studies import StudySpec


def wire(
    workbench: Workbench,
    add_page: Callable[[Page], None],
    show_study: Callable[[StudySpec], None],
    show_run: Callable[[str], None],
    arrays: ArraySubmission,
) -> StudiesController:
    """Make the page, add it to the window, and return its controller.

    `arrays` submits studies to a cluster's queue.

    `show_study` shows a study's results, `show_run` those of the run with a hash.
    """
    view = StudiesPage()
    control = StudiesController(workbench, view, arrays=arrays)
    control.results_requested.connect(show_study)
    view.detail.grid.run_chosen.connect(show_run)
    add_page(view)
    return control
