"""The Results page: browse, filter, compare and export stored runs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import SignalInstance

from wina_app.services.settings import Settings
from wina_app.services.store_thread import StoreThread
from wina_app.services.workbench import Workbench
from wina_app.widgets.base_page import Page

if TYPE_CHECKING:
    from wina_app.pages.results.controller import ResultsController
    from wina_app.pages.results.page import ResultsPage
    from wina_app.pages.results.plots.tabs import ResultsPlots

# The functions import the modules that they need: the window imports these one by one, and every import of one of them
# runs this file first.


def wire(
    workbench: Workbench,
    plots: "ResultsPlots",
    add_page: Callable[[Page], None],
    preferences_changed: SignalInstance,
    open_plan: Callable[[str], None],
) -> "ResultsController":
    """Make the page around its plots, add it to the window, and return its controller; `open_plan` opens that of the
    run with a hash."""
    from wina_app.pages.results.imports import offer_imports
    from wina_app.plots.figure import last_choice
    from wina_app.shared.sparse_export import SparseExport

    settings = workbench.settings
    last_choice.keep(settings.plot_file, lambda choice: setattr(settings, "plot_file", choice))
    view = make_page(workbench.store, plots, settings)
    control = view.controller
    control.plots.set_count(settings.preferences.sparsity_count)
    preferences_changed.connect(lambda preferences: control.plots.set_count(preferences.sparsity_count))
    view.plan_requested.connect(open_plan)
    control.plots.plan_requested.connect(open_plan)
    export = SparseExport(workbench, view)
    export.setParent(view)
    view.export.folder_chosen.connect(lambda folder: export.export_run(folder, control.selection.runs[0]))
    offer_imports(workbench, view)
    add_page(view)
    return control


def make_page(store: StoreThread, plots: "ResultsPlots", settings: Settings | None = None) -> "ResultsPage":
    """Return the page with its controller; `settings` keeps the choice of columns."""
    from wina_app.pages.results.columns import ColumnChoice
    from wina_app.pages.results.controller import ResultsController
    from wina_app.pages.results.page import ResultsPage

    columns = ColumnChoice(settings.results_columns if settings else ())
    view = ResultsPage(columns, plots)
    control = ResultsController(store, view, view.plots, columns)
    control.setParent(view)
    view.connect_to(control)
    if settings is not None:
        columns.chosen.connect(lambda: setattr(settings, "results_columns", columns.written))
    return view
