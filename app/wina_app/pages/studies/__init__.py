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

    `arrays` are the window's array jobs.

    `show_study` shows a study's results, `show_run` those of the run with a hash.
    """
    view = StudiesPage()
    control = StudiesController(workbench, view, arrays=arrays)
    view.visible_changed.connect(control.set_visible)
    view.list.chosen.connect(control.select)
    view.study_restored.connect(control.restore)
    view.file_opened.connect(control.open_file)
    view.forget_requested.connect(control.forget)
    view.run_requested.connect(control.run)
    view.results_requested.connect(control.show_results)
    view.report_requested.connect(control.report)
    view.submit_requested.connect(control.submit)
    launch = view.launch
    launch.changed.connect(control.change)
    launch.role_mapped.connect(control.map_role)
    launch.data_chosen.connect(control.choose_data)
    launch.estimate_requested.connect(control.estimate)
    launch.pause_requested.connect(control.pause)
    launch.resume_requested.connect(control.resume)
    launch.cancel_requested.connect(control.cancel)
    control.results_requested.connect(show_study)
    view.detail.grid.run_chosen.connect(show_run)
    add_page(view)
    return control
